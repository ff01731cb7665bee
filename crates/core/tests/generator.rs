//! Replays PyTorch's random streams: each sequence is one seed and the draws that follow it, compared bit for bit.

use serde_json::Value;
use tensor_core::generator::GeneratorState;
use tensor_core::generator::draw::{Real, Whole};
use tensor_core::{Bool, Element, Generator, bf16, f16};

fn numbers(step: &Value) -> Vec<f64> {
    step["args"].as_array().map_or(Vec::new(), |args| args.iter().map(|arg| arg.as_f64().unwrap()).collect())
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().unwrap();
    (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
}

fn elements<T: Element>(hex: &Value) -> Vec<T> {
    bytes(hex).chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned).collect()
}

fn many<T>(n: usize, f: impl FnMut() -> T) -> Vec<T> {
    std::iter::repeat_with(f).take(n).collect()
}

/// The draws that fill any element but a complex one.
fn whole<T: Whole>(state: &mut GeneratorState, op: &str, args: &[f64], n: usize) -> Option<Vec<T>> {
    Some(match op {
        "randint" | "random_.to" => many(n, || state.random_from_to(args[0] as u64, 0)),
        "randint.low" | "random_.from" => many(n, || state.random_from_to((args[1] - args[0]) as u64, args[0] as i64)),
        "random_" => many(n, || state.random_value()),
        "randperm" => {
            let mut order: Vec<i64> = (0..n as i64).collect();
            state.shuffle(&mut order);
            order.into_iter().map(T::from_i64).collect()
        }
        "random_full_64" => many(n, || state.random_full_64()),
        _ => return None,
    })
}

/// The draws that fill a real floating element.
fn real<T: Real>(state: &mut GeneratorState, step: &Value, n: usize) -> Vec<T> {
    let args = numbers(step);
    let strided = step["strided"] == true;
    let bit = |b: bool| T::from_f64(b as u8 as f64);
    match step["op"].as_str().unwrap() {
        "rand" => {
            let mut out = vec![T::from_f64(0.0); n];
            state.uniform_fill(&mut out, 0.0, 1.0);
            out
        }
        "uniform_" => many(n, || state.uniform(args[0], args[1])),
        "normal_" if strided => many(n, || T::from_f64(state.normal(args[0], args[1]))),
        op @ ("randn" | "normal_") => {
            let (mean, std) = if op == "randn" { (0.0, 1.0) } else { (args[0], args[1]) };
            let mut out = vec![T::from_f64(0.0); n];
            state.normal_fill(&mut out, mean, std);
            out
        }
        "exponential_" => many(n, || T::from_f64(state.exponential(args[0]))),
        "cauchy_" => many(n, || T::from_f64(state.cauchy(args[0], args[1]))),
        "log_normal_" => many(n, || T::from_f64(state.log_normal(args[0], args[1]))),
        "geometric_" => many(n, || T::from_f64(state.geometric(args[0]))),
        "bernoulli_.float" | "bernoulli.p" => many(n, || bit(state.bernoulli(args[0]))),
        "bernoulli" => {
            let p: Vec<T> = elements(&step["p"][0]);
            let wide = T::DTYPE == tensor_core::DType::F64;
            let draw = |p: &T| {
                let p = p.to_scalar().to_f64();
                bit(if wide { state.bernoulli(p) } else { state.bernoulli_f32(p as f32) })
            };
            p.iter().map(draw).collect()
        }
        "poisson" => {
            let rates: Vec<T> = elements(&step["p"][0]);
            rates.iter().map(|rate| T::from_f64(state.poisson(rate.to_scalar().to_f64()) as f64)).collect()
        }
        op => panic!("no draw for {op}"),
    }
}

fn compare<T: Element>(step: &Value, got: &[T]) -> Result<(), String> {
    let want: Vec<T> = elements(&step["hex"]);
    if bytemuck::cast_slice::<T, u8>(got) == bytemuck::cast_slice::<T, u8>(&want) {
        return Ok(());
    }
    let at = got.iter().zip(&want).position(|(a, b)| a != b);
    let count = got.iter().zip(&want).filter(|(a, b)| a != b).count();
    Err(format!(
        "{} {} n={}: {count} differ, first at {at:?}: {:?} for {:?}",
        step["op"],
        step["dtype"],
        want.len(),
        at.map(|i| got[i]),
        at.map(|i| want[i])
    ))
}

fn replay(state: &mut GeneratorState, step: &Value) -> Result<(), String> {
    let n = step["n"].as_u64().unwrap() as usize;
    let (op, args) = (step["op"].as_str().unwrap(), numbers(step));
    macro_rules! wholes {
        ($($name:literal $ty:ty),*) => { match step["dtype"].as_str().unwrap() {
            $($name => if let Some(got) = whole::<$ty>(state, op, &args, n) { return compare(step, &got); })*
            other => panic!("no dtype {other}"),
        } };
    }
    wholes!("bool" Bool, "uint8" u8, "int8" i8, "int16" i16, "int32" i32, "int64" i64, "float16" f16, "bfloat16" bf16,
        "float32" f32, "float64" f64);
    match step["dtype"].as_str().unwrap() {
        "float16" => compare(step, &real::<f16>(state, step, n)),
        "bfloat16" => compare(step, &real::<bf16>(state, step, n)),
        "float32" => compare(step, &real::<f32>(state, step, n)),
        _ => compare(step, &real::<f64>(state, step, n)),
    }
}

fn replay_all(sequences: &str) {
    let sequences: Vec<Value> = serde_json::from_str(sequences).unwrap();
    let mut failures = Vec::new();
    let mut steps = 0;
    for sequence in &sequences {
        let generator = Generator::with_seed(sequence["seed"].as_u64().unwrap());
        let mut state = generator.lock();
        for step in sequence["steps"].as_array().unwrap() {
            steps += 1;
            failures.extend(replay(&mut state, step).err());
        }
    }
    assert!(failures.is_empty(), "{} of {steps} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_dtype_draws_as_pytorch() {
    replay_all(include_str!("data/rng_dtypes.json"));
}

#[test]
fn streams_are_pytorchs_bit_for_bit() {
    replay_all(include_str!("data/rng.json"));
}

/// FNV-1a, so that a state of 5056 bytes is one number here.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ b as u64).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn states_are_pytorchs_byte_for_byte() {
    // Hashes of `torch.get_rng_state()` after `manual_seed((7 << 32) + 5)`, then `randn(3)`, then `rand(700)`.
    let generator = Generator::with_seed((7 << 32) + 5);
    assert_eq!(hash(&generator.get_state()), 0xb7d9_c8e0_1f84_03c7);
    generator.lock().normal_fill(&mut [0f32; 3], 0.0, 1.0);
    assert_eq!(hash(&generator.get_state()), 0x134e_b94d_3e51_414d);
    generator.lock().uniform_fill(&mut [0f32; 700], 0.0, 1.0);
    let state = generator.get_state();
    assert_eq!(hash(&state), 0x8104_d4b3_634f_966f);
    let other = Generator::new();
    other.set_state(&state).unwrap();
    assert_eq!(other.initial_seed(), (7 << 32) + 5);
    assert_eq!(other.lock().normal(0.0, 1.0).to_bits(), generator.lock().normal(0.0, 1.0).to_bits());
}
