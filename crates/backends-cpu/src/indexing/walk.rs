//! Offsets of the elements of strided shapes, in row-major order.

use smallvec::SmallVec;

/// The offsets of all elements.
pub(super) fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<usize> {
    let mut list = vec![0];
    for (&size, &stride) in sizes.iter().zip(strides) {
        let (size, stride) = (size as usize, stride as usize);
        list = list.iter().flat_map(|&at| (0..size).map(move |i| at + i * stride)).collect();
    }
    list
}

/// Walks the elements of a shape from any of them on; several strides may go along.
pub(super) struct Walk<'a, const N: usize> {
    sizes: &'a [i64],
    strides: [&'a [i64]; N],
    index: SmallVec<[i64; 6]>,
    /// how many steps the last dimension has left, and how far each goes
    left: i64,
    pace: [usize; N],
    /// where each of the strides is
    pub at: [usize; N],
}

impl<'a, const N: usize> Walk<'a, N> {
    /// At element `start`. The shape is not empty.
    pub fn new(sizes: &'a [i64], strides: [&'a [i64]; N], start: usize) -> Self {
        let pace = strides.map(|strides| strides.last().map_or(0, |&stride| stride as usize));
        let index = SmallVec::from_elem(0, sizes.len());
        let mut walk = Self { sizes, strides, index, left: 0, pace, at: [0; N] };
        let mut rest = start as i64;
        for d in (0..sizes.len()).rev() {
            let i = rest % sizes[d];
            rest /= sizes[d];
            walk.index[d] = i;
            for (at, strides) in walk.at.iter_mut().zip(strides) {
                *at += (i * strides[d]) as usize;
            }
        }
        walk.left = sizes.last().zip(walk.index.last()).map_or(0, |(size, i)| size - i - 1);
        walk
    }

    /// The index of the element that the walk began at.
    pub fn index(&self) -> &[i64] {
        &self.index
    }

    /// Moves on to the next element, from the last to the first.
    #[inline(always)]
    pub fn step(&mut self) {
        if self.left > 0 {
            self.left -= 1;
            for k in 0..N {
                self.at[k] += self.pace[k];
            }
        } else {
            self.carry();
        }
    }

    /// [`Walk::step`] from the end of the last dimension.
    #[inline(never)]
    fn carry(&mut self) {
        if let (Some(i), Some(size)) = (self.index.last_mut(), self.sizes.last()) {
            *i = size - 1;
            self.left = size - 1;
        }
        for d in (0..self.sizes.len()).rev() {
            self.index[d] += 1;
            let wraps = self.index[d] == self.sizes[d];
            for (at, strides) in self.at.iter_mut().zip(self.strides) {
                *at += strides[d] as usize;
                if wraps {
                    *at -= (strides[d] * self.sizes[d]) as usize;
                }
            }
            if !wraps {
                return;
            }
            self.index[d] = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_visits_the_offsets_in_order() {
        let (sizes, strides) = ([2, 3, 2], [1, 4, 2]);
        let all = offsets(&sizes, &strides);
        assert_eq!(all, [0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11]);
        for start in 0..12 {
            let mut walk = Walk::new(&sizes, [&strides], start);
            for step in 0..13 {
                assert_eq!(walk.at[0], all[(start + step) % 12]);
                walk.step();
            }
        }
        assert_eq!(offsets(&[], &[]), [0]);
        assert_eq!(offsets(&[3, 0], &[1, 1]), [0usize; 0]);
    }
}
