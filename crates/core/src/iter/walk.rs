//! Walking a plan: ranges of its elements as 2-D chunks of byte offsets. No pointers here.

use std::ops::Range;

use smallvec::SmallVec;

use super::TensorIter;

impl TensorIter {
    /// Covers the elements `begin..end` of the walk (innermost dimension first) with chunks of `size0` by `size1` elements.
    ///
    /// `f(offsets, size0, size1)` gets the byte offset of the chunk's first element for each operand; within a chunk, operand
    /// `i` moves by [`TensorIter::strides0`] and [`TensorIter::strides1`]. `end` is clamped to the number of elements.
    #[inline]
    pub fn for_each_chunk(&self, begin: usize, end: usize, f: impl FnMut(&[isize], usize, usize)) {
        self.walk(0..self.plan.shape.len(), begin, end, f);
    }

    /// [`TensorIter::for_each_chunk`] along some of the merged dimensions, the others held at index 0: with it a reduction
    /// walks its kept dimensions outside and its reduced ones inside. Within a chunk, operands move by their strides of the
    /// range's first two dimensions.
    pub fn walk(&self, dims: Range<usize>, begin: usize, end: usize, mut f: impl FnMut(&[isize], usize, usize)) {
        let dims = dims.start.min(self.plan.shape.len())..dims.end.min(self.plan.shape.len());
        let shape = self.plan.shape.get(dims.clone()).unwrap_or(&[]);
        let end = end.min(shape.iter().fold(1usize, |numel, &size| numel.saturating_mul(size as usize)));
        if begin >= end {
            return;
        }
        // What is named by index here runs once a row, in the crates of kernels: neither adapters of iterators nor `SmallVec`'s
        // `Index`, which are calls there.
        let mut offsets: SmallVec<[isize; 8]> = SmallVec::from_elem(0, self.plan.operands.len());
        let mut index: SmallVec<[usize; 5]> = SmallVec::from_elem(0, shape.len().max(1));
        let (offsets, index) = (offsets.as_mut_slice(), index.as_mut_slice());
        let (strides, ndim) = (self.plan.strides.as_slice(), self.plan.shape.len());
        let size = |d: usize| if d < shape.len() { shape[d] as usize } else { 1 };
        let advance = |offsets: &mut [isize], d: usize, steps: isize| {
            let mut at = dims.start + d;
            for offset in offsets {
                if at < strides.len() {
                    *offset = offset.wrapping_add(strides[at].wrapping_mul(steps));
                }
                at += ndim;
            }
        };
        let mut rest = begin;
        let mut d = 0;
        while rest > 0 && d < shape.len() {
            index[d] = rest % size(d);
            rest /= size(d);
            advance(offsets, d, index[d] as isize);
            d += 1;
        }
        let mut left = end - begin;
        loop {
            let size0 = (size(0) - index[0]).min(left);
            let whole_rows = size0 == size(0) && shape.len() > 1;
            let size1 = if whole_rows { (size(1) - index[1]).min(left / size0) } else { 1 };
            f(offsets, size0, size1);
            left -= size0 * size1;
            if left == 0 {
                return;
            }
            let (mut d, mut steps) = if whole_rows { (1, size1) } else { (0, size0) };
            // Elements are left, so some outer dimension has not ended.
            loop {
                index[d] += steps;
                advance(offsets, d, steps as isize);
                if index[d] < size(d) {
                    break;
                }
                index[d] = 0;
                advance(offsets, d, -(size(d) as isize));
                (d, steps) = (d + 1, 1);
            }
        }
    }
}
