//! [`Generator`]: the source of random numbers on the CPU, with PyTorch's exact streams.
//!
//! The handle, seeds and saved states live here; the engine's bits in [`engine`], single draws in [`draw`], the blocks
//! of normal numbers in [`normal`]. Filling tensors, and checks of distributions' parameters, are operators' work.

pub mod draw;
pub mod engine;
pub mod normal;

use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};

use parking_lot::{Mutex, MutexGuard};

use crate::{Device, Result, check};
use engine::Mt19937;

/// What a generator that nobody seeded starts from, but for the default one.
pub const DEFAULT_SEED: u64 = 67_280_421_310_721;

/// Bytes of a saved state.
pub const STATE_BYTES: usize = 5056;

/// Where the parts of a saved state lie. The layout is that of `torch.Generator.get_state()`, so states can be exchanged.
mod layout {
    pub const SEED: usize = 0;
    pub const LEFT: usize = 8;
    pub const SEEDED: usize = 12;
    pub const NEXT: usize = 16;
    /// 624 words, eight bytes each.
    pub const WORDS: usize = 24;
    pub const NORMAL_F64: usize = 5024;
    pub const NORMAL_F64_VALID: usize = 5040;
    pub const NORMAL_F32: usize = 5048;
    pub const NORMAL_F32_VALID: usize = 5052;
}

/// A generator's numbers: the engine and the normal numbers that were made and not yet given out.
///
/// Kernels reach it through [`Generator::lock`] and draw with the methods of [`draw`] and [`normal`].
#[derive(Clone, Debug)]
pub struct GeneratorState {
    engine: Mt19937,
    initial_seed: u64,
    next_normal_f32: Option<f32>,
    next_normal_f64: Option<f64>,
}

impl GeneratorState {
    fn new(seed: u64) -> Self {
        Self { engine: Mt19937::new(seed as u32), initial_seed: seed, next_normal_f32: None, next_normal_f64: None }
    }

    /// The next 32 bits.
    #[inline]
    pub fn random(&mut self) -> u32 {
        self.engine.next_u32()
    }

    /// The next 64 bits: two 32-bit draws, the first one high.
    #[inline]
    pub fn random64(&mut self) -> u64 {
        self.engine.next_u64()
    }

    /// Up to `most` 32-bit draws at once: at least one unless `most` is 0, fewer than asked at the end of a block.
    #[inline]
    pub fn take(&mut self, most: usize) -> &[u32] {
        self.engine.take(most)
    }

    /// Up to `most` 64-bit draws at once, each as its high and its low half. None if a block of 624 draws ends within the
    /// next one: then take that from [`GeneratorState::random64`].
    #[inline]
    pub fn take_pairs(&mut self, most: usize) -> &[[u32; 2]] {
        self.engine.take_pairs(most)
    }

    /// Takes the f32 normal number that an earlier draw left behind.
    pub fn next_float_normal_sample(&mut self) -> Option<f32> {
        self.next_normal_f32.take()
    }

    /// Leaves an f32 normal number for the next draw.
    pub fn set_next_float_normal_sample(&mut self, value: Option<f32>) {
        self.next_normal_f32 = value;
    }

    /// Takes the f64 normal number that an earlier draw left behind.
    pub fn next_double_normal_sample(&mut self) -> Option<f64> {
        self.next_normal_f64.take()
    }

    /// Leaves an f64 normal number for the next draw.
    pub fn set_next_double_normal_sample(&mut self, value: Option<f64>) {
        self.next_normal_f64 = value;
    }

    /// The state as PyTorch saves it.
    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; STATE_BYTES];
        let mut put = |at: usize, part: &[u8]| bytes[at..at + part.len()].copy_from_slice(part);
        let (left, next) = self.engine.position();
        put(layout::SEED, &self.initial_seed.to_le_bytes());
        put(layout::LEFT, &left.to_le_bytes());
        put(layout::SEEDED, &1u32.to_le_bytes());
        put(layout::NEXT, &(next as u64).to_le_bytes());
        for (i, &word) in self.engine.words().iter().enumerate() {
            put(layout::WORDS + 8 * i, &(word as u64).to_le_bytes());
        }
        if let Some(value) = self.next_normal_f64 {
            put(layout::NORMAL_F64, &value.to_le_bytes());
            put(layout::NORMAL_F64_VALID, &1u32.to_le_bytes());
        }
        if let Some(value) = self.next_normal_f32 {
            put(layout::NORMAL_F32, &value.to_le_bytes());
            put(layout::NORMAL_F32_VALID, &[1]);
        }
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self> {
        check!(
            bytes.len() == STATE_BYTES,
            "Expected a CPUGeneratorImplState of size {STATE_BYTES} but found the input RNG state size to be {}",
            bytes.len()
        );
        let u32_at = |at: usize| bytemuck::pod_read_unaligned::<u32>(&bytes[at..at + 4]);
        let u64_at = |at: usize| bytemuck::pod_read_unaligned::<u64>(&bytes[at..at + 8]);
        let words = std::array::from_fn(|i| u64_at(layout::WORDS + 8 * i) as u32);
        let engine = match u32_at(layout::SEEDED) {
            1 => Mt19937::restore(words, u32_at(layout::LEFT), u64_at(layout::NEXT)),
            _ => None,
        };
        let Some(engine) = engine else {
            crate::bail!(Runtime, "Invalid mt19937 state");
        };
        let valid = |at: usize| bytes[at] != 0;
        Ok(Self {
            engine,
            initial_seed: u64_at(layout::SEED),
            next_normal_f32: valid(layout::NORMAL_F32_VALID).then(|| f32::from_bits(u32_at(layout::NORMAL_F32))),
            next_normal_f64: valid(layout::NORMAL_F64_VALID).then(|| f64::from_bits(u64_at(layout::NORMAL_F64))),
        })
    }
}

/// A shared source of random numbers (`torch.Generator`). Clones draw from one stream; see [`Generator::clone_state`].
///
/// ```
/// let generator = tensor_core::Generator::new();
/// generator.manual_seed(0);
/// assert_eq!(generator.lock().uniform::<f32>(0.0, 1.0), 0.4962566);
/// ```
#[derive(Clone)]
pub struct Generator(Arc<Mutex<GeneratorState>>);

/// A generator held by one kernel while it draws. Take no other lock, and call no operator, while you hold it.
pub struct GeneratorGuard<'a>(MutexGuard<'a, GeneratorState>);

impl Deref for GeneratorGuard<'_> {
    type Target = GeneratorState;
    #[inline]
    fn deref(&self) -> &GeneratorState {
        &self.0
    }
}

impl DerefMut for GeneratorGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut GeneratorState {
        &mut self.0
    }
}

impl Default for Generator {
    fn default() -> Self {
        Self::new()
    }
}

impl Generator {
    /// A CPU generator with PyTorch's fixed first seed (`torch.Generator()`).
    pub fn new() -> Self {
        Self::with_seed(DEFAULT_SEED)
    }

    /// A CPU generator with a seed.
    pub fn with_seed(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(GeneratorState::new(seed))))
    }

    /// The device whose tensors it fills.
    pub fn device(&self) -> Device {
        Device::CPU
    }

    /// Holds the generator for a run of draws.
    #[inline]
    pub fn lock(&self) -> GeneratorGuard<'_> {
        GeneratorGuard(self.0.lock())
    }

    /// Starts the stream of a seed. The engine uses the low 32 bits, as PyTorch's does.
    pub fn manual_seed(&self, seed: u64) {
        *self.lock() = GeneratorState::new(seed);
    }

    /// Starts the stream of a seed that nobody can foresee, and gives that seed.
    pub fn seed(&self) -> u64 {
        let seed = nondeterministic_seed();
        self.manual_seed(seed);
        seed
    }

    /// The last seed that was set, all 64 bits of it.
    pub fn initial_seed(&self) -> u64 {
        self.lock().initial_seed
    }

    /// The whole state as bytes, in the layout of `torch.Generator.get_state()`.
    pub fn get_state(&self) -> Vec<u8> {
        self.lock().to_bytes()
    }

    /// Restores a state that [`Generator::get_state`] or PyTorch saved.
    ///
    /// # Errors
    /// When the bytes are not such a state; the generator is then unchanged.
    pub fn set_state(&self, bytes: &[u8]) -> Result<()> {
        let state = GeneratorState::from_bytes(bytes)?;
        *self.lock() = state;
        Ok(())
    }

    /// A new generator that will draw the same numbers as this one, on its own (`torch.Generator.clone_state`).
    #[must_use]
    pub fn clone_state(&self) -> Self {
        let state = self.lock().clone();
        Self(Arc::new(Mutex::new(state)))
    }

    /// Puts the generator back to where it is now when the guard is dropped (`torch.random.fork_rng`).
    pub fn fork(&self) -> Fork<'_> {
        let saved = Box::new(self.lock().clone());
        Fork { generator: self, saved }
    }

    /// True if both handles draw from one stream.
    pub fn same_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl PartialEq for Generator {
    /// Two handles are equal if they draw from one stream.
    fn eq(&self, other: &Self) -> bool {
        self.same_as(other)
    }
}

impl Eq for Generator {}

impl fmt::Debug for Generator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "<torch.Generator device={} seed={}>", self.device(), self.initial_seed())
    }
}

/// Restores a generator when dropped. Made by [`Generator::fork`].
#[must_use = "the generator is restored when the guard is dropped"]
pub struct Fork<'a> {
    generator: &'a Generator,
    saved: Box<GeneratorState>,
}

impl Drop for Fork<'_> {
    fn drop(&mut self) {
        std::mem::swap(&mut *self.generator.lock(), &mut *self.saved);
    }
}

static DEFAULT_CPU: LazyLock<Generator> = LazyLock::new(|| Generator::with_seed(nondeterministic_seed()));

/// The process's generator, which operators use that are given none (`torch.default_generator`).
#[inline]
pub fn default_cpu() -> &'static Generator {
    &DEFAULT_CPU
}

/// Seeds the process's generator (`torch.manual_seed`).
pub fn manual_seed(seed: u64) -> &'static Generator {
    default_cpu().manual_seed(seed);
    default_cpu()
}

/// 53 unforeseeable bits, so that the seed is exact as a double.
fn nondeterministic_seed() -> u64 {
    // Each `RandomState` of the standard library has keys of its own, which come from the system.
    std::hash::RandomState::new().build_hasher().finish() & ((1 << 53) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_come_back() {
        let generator = Generator::with_seed(7);
        generator.lock().normal(0.0, 1.0);
        let state = generator.get_state();
        let draws = |g: &Generator| {
            let mut g = g.lock();
            (g.normal(0.0, 1.0), g.random64(), g.random())
        };
        let twin = generator.clone_state();
        let wanted = draws(&generator);
        assert_eq!(draws(&twin), wanted);
        generator.set_state(&state).unwrap();
        {
            let _fork = generator.fork();
            assert_eq!(draws(&generator), wanted);
        }
        assert_eq!(draws(&generator), wanted);
        assert_eq!(generator.initial_seed(), 7);
    }

    #[test]
    fn broken_states_are_refused() {
        let generator = Generator::with_seed(7);
        let text = |bytes: &[u8]| generator.set_state(bytes).unwrap_err().message().to_owned();
        assert_eq!(text(&[0; STATE_BYTES]), "Invalid mt19937 state");
        assert_eq!(
            text(&[0; 16]),
            "Expected a CPUGeneratorImplState of size 5056 but found the input RNG state size to be 16"
        );
        let mut state = generator.get_state();
        state[layout::NEXT..layout::NEXT + 8].fill(0xff);
        assert_eq!(text(&state), "Invalid mt19937 state");
        assert_eq!(generator.lock().random(), Generator::with_seed(7).lock().random());
    }

    #[test]
    fn seeds_differ_and_are_kept() {
        let generator = Generator::new();
        assert_eq!(generator.initial_seed(), DEFAULT_SEED);
        let first = generator.seed();
        assert_eq!(generator.initial_seed(), first);
        assert_ne!(generator.seed(), first);
    }
}
