//! [`Ranges`]: large blocks, cut from ranges of pages and joined to them again.
//!
//! A model's step allocates activations, frees them, and allocates gradients of other sizes. Kept by size, each would wait for
//! its like while the others come from fresh pages. So large blocks are cut from the smallest range that holds them, and a
//! freed one is joined to its neighbours. Where no range is long enough, a fresh one takes its pages, as far as there are,
//! from those that lie free (they are moved, not copied): what the process has resident is what it used at most at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::system::{HUGE, pages};

/// Free ranges of pages.
pub(super) struct Ranges {
    free: Mutex<Free>,
    /// their bytes, as of the last change
    bytes: AtomicUsize,
}

impl Ranges {
    pub(super) const fn new() -> Self {
        let free = Free { lengths: BTreeMap::new(), by_length: BTreeSet::new(), bytes: 0, bottom: 0, still: false };
        Self { free: Mutex::new(free), bytes: AtomicUsize::new(0) }
    }

    /// The bytes that are free.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn with<T>(&self, f: impl FnOnce(&mut Free) -> T) -> T {
        let mut free = self.free.lock();
        let result = f(&mut free);
        self.bytes.store(free.bytes, Ordering::Relaxed);
        result
    }

    /// A block of at least `size` bytes, if a free range has that many.
    pub(super) fn take(&self, size: usize) -> Option<usize> {
        let length = length_of(size)?;
        self.with(|free| free.take(length))
    }

    /// A block of at least `size` bytes from fresh pages; nothing when there are not that many.
    pub(super) fn grow(&self, size: usize) -> Option<usize> {
        let length = length_of(size)?;
        self.with(|free| match free.grow(length) {
            None if free.empty() => free.grow(length),
            block => block,
        })
    }

    /// Takes a block back. Free ranges keep `most` bytes; what is more goes to the system.
    ///
    /// # Safety
    /// The block came from here with this size, and nothing uses it any more.
    pub(super) unsafe fn give(&self, start: usize, size: usize, most: usize) {
        let Some(length) = length_of(size) else { return };
        self.with(|free| {
            // SAFETY: forwarded from the caller.
            if free.bytes + length > most && unsafe { pages::unmap(start, length) } {
                return;
            }
            free.join(start, length);
        });
    }

    /// Gives all free ranges to the system.
    pub(super) fn empty(&self) {
        self.with(Free::empty);
    }
}

/// Whole pages; nothing for sizes beyond the address space.
fn length_of(size: usize) -> Option<usize> {
    size.checked_next_multiple_of(pages::size())
}

/// Ranges of whole pages that are mapped by `pages`, owned here and used by nobody. No two touch.
struct Free {
    /// of each by where it starts
    lengths: BTreeMap<usize, usize>,
    /// (length, start)
    by_length: BTreeSet<(usize, usize)>,
    bytes: usize,
    /// where the last mapping starts: the next one is best below it
    bottom: usize,
    /// the system refused to move pages
    still: bool,
}

impl Free {
    fn insert(&mut self, start: usize, length: usize) {
        if length > 0 {
            self.lengths.insert(start, length);
            self.by_length.insert((length, start));
            self.bytes += length;
        }
    }

    fn remove(&mut self, start: usize, length: usize) {
        self.lengths.remove(&start);
        self.by_length.remove(&(length, start));
        self.bytes -= length;
    }

    /// Adds a range, joined to those that it touches.
    fn join(&mut self, mut start: usize, mut length: usize) {
        if let Some((&before, &its)) = self.lengths.range(..start).next_back()
            && before + its == start
        {
            self.remove(before, its);
            (start, length) = (before, its + length);
        }
        if let Some(&its) = self.lengths.get(&(start + length)) {
            self.remove(start + length, its);
            length += its;
        }
        self.insert(start, length);
    }

    /// Cuts a block from the end of the shortest range that holds it.
    fn take(&mut self, length: usize) -> Option<usize> {
        let &(its, start) = self.by_length.range((length, 0)..).next()?;
        self.remove(start, its);
        self.insert(start, its - length);
        Some(start + its - length)
    }

    /// A block from fresh pages, below the last ones if there is room, so that a range that is left there goes on.
    fn grow(&mut self, length: usize) -> Option<usize> {
        let left = self.lengths.get(&self.bottom).copied().unwrap_or(0);
        let missing = length.checked_sub(left)?.checked_next_multiple_of(HUGE)?;
        let below = self.bottom.checked_sub(missing).filter(|&below| below > 0 && pages::map_at(below, missing));
        let (start, fresh, keep) = match below {
            Some(start) => (start, missing, self.bottom),
            None => {
                let whole = length.checked_next_multiple_of(HUGE)?;
                (pages::map(whole)?, whole, 0)
            }
        };
        self.bottom = start;
        let end = self.populate(start, start + fresh, keep);
        self.join(start, end - start);
        self.take(length)
    }

    /// Moves free huge pages, but for the range at `keep`, to fresh ones from `start` on, or unmaps them where the system moves
    /// none: as many as are about to be used. Where the fresh ones end after that: at `end`, but for the one time that a move
    /// fails.
    fn populate(&mut self, start: usize, end: usize, keep: usize) -> usize {
        let mut to = start;
        let long = self.by_length.iter().rev().take_while(|(length, _)| *length >= HUGE);
        let donors: Vec<_> = long.filter(|(_, start)| *start != keep).copied().collect();
        for (length, donor) in donors {
            let first = donor.next_multiple_of(HUGE);
            let last = first + ((donor + length).saturating_sub(first) / HUGE * HUGE).min(end - to);
            let (mut from, moved_before) = (first, !self.still);
            while from < last {
                if self.still {
                    // SAFETY: of a free range of `self`.
                    if !unsafe { pages::unmap(from, HUGE) } {
                        break;
                    }
                // SAFETY: both are mapped, the one a free range of `self`, the other fresh, so they do not overlap.
                } else if !unsafe { pages::relocate(from, to) } {
                    self.still = true;
                    break;
                }
                from += HUGE;
                to += HUGE;
            }
            if from > first {
                self.remove(donor, length);
                self.insert(donor, first - donor);
                self.insert(from, donor + length - from);
            }
            if self.still && moved_before {
                // Nobody knows whether something is mapped at `to` now: it is left alone, unused.
                // SAFETY: fresh pages behind it.
                unsafe { pages::unmap(to + HUGE, end - to - HUGE) };
                self.bottom = 0;
                return to;
            }
        }
        end
    }

    /// Unmaps all ranges; true if there were any.
    fn empty(&mut self) -> bool {
        let before = self.bytes;
        for (start, length) in self.lengths.clone() {
            // SAFETY: a free range of `self`.
            if unsafe { pages::unmap(start, length) } {
                self.remove(start, length);
            }
        }
        self.bytes < before
    }
}

#[cfg(all(test, target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    static TURN: Mutex<()> = Mutex::new(());

    fn get(ranges: &Ranges, size: usize) -> usize {
        ranges.take(size).or_else(|| ranges.grow(size)).unwrap()
    }

    fn give(ranges: &Ranges, start: usize, size: usize) {
        // SAFETY: of `get` with this size, in every test.
        unsafe { ranges.give(start, size, 1 << 40) }
    }

    fn fill(start: usize, size: usize, with: u8) {
        // SAFETY: a block of `get`, of this size.
        unsafe { std::ptr::write_bytes(start as *mut u8, with, size) }
    }

    fn holds(start: usize, size: usize, what: u8) -> bool {
        // SAFETY: a block of `get` that `fill` wrote.
        unsafe { std::slice::from_raw_parts(start as *const u8, size) }.iter().step_by(61).all(|byte| *byte == what)
    }

    /// What is listed is what is counted, and no two ranges touch.
    fn assert_sound(ranges: &Ranges) {
        let free = ranges.free.lock();
        assert_eq!(free.lengths.values().sum::<usize>(), free.bytes);
        assert_eq!(free.by_length.len(), free.lengths.len());
        assert!(free.lengths.iter().zip(free.lengths.keys().skip(1)).all(|((a, n), b)| a + n < *b));
    }

    /// What the process has resident. Only the tests of this module use tens of megabytes: they take turns.
    fn resident() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * pages::size()
    }

    #[test]
    fn freed_neighbours_are_one_range() {
        let _turn = TURN.lock();
        let ranges = Ranges::new();
        // Cut from one range: fresh pages lie below the last ones only where nobody else has taken the addresses.
        let start = get(&ranges, 12 * MIB);
        give(&ranges, start, 12 * MIB);
        let blocks = [3, 5, 4].map(|n| (ranges.take(n * MIB).unwrap(), n * MIB));
        assert_eq!(ranges.bytes() % HUGE, 0);
        for (start, size) in [blocks[0], blocks[2], blocks[1]] {
            give(&ranges, start, size);
        }
        assert_eq!(ranges.free.lock().lengths.len(), 1);
        let whole = ranges.bytes();
        let start = ranges.take(12 * MIB).unwrap();
        assert_eq!(ranges.bytes(), whole - 12 * MIB);
        give(&ranges, start, 12 * MIB);
        ranges.empty();
        assert_eq!(ranges.bytes(), 0);
    }

    /// Where fresh pages lie below the last ones, they are one range with them.
    #[test]
    fn blocks_from_fresh_pages_are_joined_where_they_touch() {
        let _turn = TURN.lock();
        let ranges = Ranges::new();
        let blocks = [3, 5, 4].map(|n| (get(&ranges, n * MIB), n * MIB));
        assert_sound(&ranges);
        for (start, size) in [blocks[0], blocks[2], blocks[1]] {
            give(&ranges, start, size);
            assert_sound(&ranges);
        }
        ranges.empty();
        assert_eq!(ranges.bytes(), 0);
    }

    #[test]
    fn a_longer_block_takes_the_pages_of_shorter_ones() {
        let _turn = TURN.lock();
        let ranges = Ranges::new();
        let blocks: Vec<usize> = (0..40).map(|_| get(&ranges, 4 * MIB)).collect();
        blocks.iter().enumerate().for_each(|(i, &start)| fill(start, 4 * MIB, i as u8));
        let before = resident();
        for &start in blocks.iter().step_by(2) {
            give(&ranges, start, 4 * MIB);
        }
        let long = get(&ranges, 80 * MIB);
        fill(long, 80 * MIB, 77);
        assert!(ranges.bytes() < 4 * MIB, "{} bytes lie free", ranges.bytes());
        assert!(resident() < before + 20 * MIB, "resident memory grew from {before} to {} bytes", resident());
        for (i, &start) in blocks.iter().enumerate().skip(1).step_by(2) {
            assert!(holds(start, 4 * MIB, i as u8));
            give(&ranges, start, 4 * MIB);
        }
        assert!(holds(long, 80 * MIB, 77));
        give(&ranges, long, 80 * MIB);
        ranges.empty();
    }

    #[test]
    fn what_is_more_than_may_be_kept_goes_back() {
        let _turn = TURN.lock();
        let ranges = Ranges::new();
        let (a, b) = (get(&ranges, 4 * MIB), get(&ranges, 4 * MIB));
        give(&ranges, a, 4 * MIB);
        let kept = ranges.bytes();
        // SAFETY: of `get` with this size.
        unsafe { ranges.give(b, 4 * MIB, kept) };
        assert_eq!(ranges.bytes(), kept);
        ranges.empty();
    }

    /// Blocks of random sizes hold what was written to them, whatever is allocated and freed around them.
    #[test]
    fn blocks_never_overlap() {
        let _turn = TURN.lock();
        let ranges = Ranges::new();
        let (mut blocks, mut state) = (Vec::new(), 1_u64);
        let mut random = move |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        for i in 0..3000 {
            if blocks.len() > 12 || (random(3) == 0 && !blocks.is_empty()) {
                let (start, size, byte): (usize, usize, u8) = blocks.swap_remove(random(blocks.len()));
                assert!(
                    holds(start, 64, byte) && holds(start + size - 64, 64, byte) && holds(start + size / 2, 64, byte)
                );
                give(&ranges, start, size);
            } else {
                let size = (64 << 10) + random(12 * MIB);
                let start = get(&ranges, size);
                assert_eq!(start % 64, 0);
                for at in [0, size / 2, size - 64] {
                    fill(start + at, 64, i as u8);
                }
                blocks.push((start, size, i as u8));
            }
        }
        assert_sound(&ranges);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert_eq!(Ranges::new().grow(usize::MAX), None);
        assert_eq!(Ranges::new().grow(1 << 60), None);
    }
}
