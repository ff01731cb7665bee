//! [`Split`]: a mutable slice that the chunks of a parallel region take disjoint parts of.

use std::marker::PhantomData;

use parking_lot::Mutex;

/// A mutable slice whose parts go to several threads. A part that overlaps one given out before panics.
pub(super) struct Split<'a, T> {
    pointer: *mut T,
    len: usize,
    /// Sorted, disjoint ranges that are out; neighbours are merged.
    given: Mutex<Vec<(usize, usize)>>,
    _slice: PhantomData<&'a mut [T]>,
}

// SAFETY: the parts are disjoint mutable slices, each used by one thread; `given` is locked.
unsafe impl<T: Send> Sync for Split<'_, T> {}

impl<'a, T> Split<'a, T> {
    pub(super) fn new(slice: &'a mut [T]) -> Self {
        Self { pointer: slice.as_mut_ptr(), len: slice.len(), given: Mutex::new(Vec::new()), _slice: PhantomData }
    }

    /// The elements from `begin` to `end`, once.
    #[allow(clippy::mut_from_ref)]
    pub(super) fn part(&self, begin: usize, end: usize) -> &'a mut [T] {
        assert!(begin <= end && end <= self.len, "part {begin}..{end} of {}", self.len);
        if begin == end {
            return &mut [];
        }
        self.give(begin, end);
        // SAFETY: in bounds; `give` made sure that no other part overlaps this one, and the slice is borrowed for `'a`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.add(begin), end - begin) }
    }

    fn give(&self, begin: usize, end: usize) {
        let mut given = self.given.lock();
        let at = given.partition_point(|r| r.0 < begin);
        let free = (at == 0 || given[at - 1].1 <= begin) && given.get(at).is_none_or(|r| r.0 >= end);
        assert!(free, "part {begin}..{end} was given out before");
        let joins_left = at > 0 && given[at - 1].1 == begin;
        let joins_right = given.get(at).is_some_and(|r| r.0 == end);
        match (joins_left, joins_right) {
            (true, true) => {
                given[at - 1].1 = given[at].1;
                given.remove(at);
            }
            (true, false) => given[at - 1].1 = end,
            (false, true) => given[at].0 = begin,
            (false, false) => given.insert(at, (begin, end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_disjoint() {
        let mut values = [0; 10];
        let split = Split::new(&mut values);
        split.part(2, 4)[0] = 1;
        split.part(6, 10);
        split.part(4, 6)[1] = 2;
        split.part(0, 2);
        assert_eq!(*split.given.lock(), [(0, 10)]);
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| split.part(3, 4))).is_err());
        drop(split);
        assert_eq!(values, [0, 0, 1, 0, 0, 2, 0, 0, 0, 0]);
    }
}
