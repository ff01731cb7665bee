//! Files: what is written is read back, what is no file is an error.

use tensor::nn::StateDict;
use tensor::prelude::*;
use tensor::serialize;

use crate::close::generator;

fn state(tensors: impl IntoIterator<Item = (&'static str, Tensor)>) -> StateDict {
    tensors.into_iter().map(|(name, tensor)| (name.to_owned(), tensor)).collect()
}

#[test]
fn every_dtype_comes_back_as_it_was() {
    use DType::*;
    for dtype in [Bool, U8, I8, I16, I32, I64, F16, BF16, F32, F64, C64] {
        let x = tensor!([[0.0, 1.0], [2.0, 3.0]]).unwrap().to_dtype(dtype).unwrap();
        let back = serialize::load(&serialize::save(&state([("x", x.clone())])).unwrap()).unwrap();
        let y = back.get("x").unwrap();
        assert_eq!((y.dtype(), y.sizes()), (dtype, x.sizes()));
        assert_eq!(y.to_string(), x.to_string());
    }
    let wide = state([("x", Tensor::zeros(&[1], C128).unwrap())]);
    assert!(serialize::save(&wide).unwrap_err().message().contains("complex128"));
}

#[test]
fn views_empty_tensors_and_scalars_are_written_as_they_look() {
    let x = tensor!([[1, 2, 3], [4, 5, 6]]).unwrap();
    let saved = state([
        ("t", x.t().unwrap()),
        ("row", x.i(1).unwrap()),
        ("wide", x.i((0, ..1)).unwrap().expand(&[4]).unwrap()),
        ("empty", x.i((.., 0..0)).unwrap()),
        ("one", tensor!(7).unwrap()),
    ]);
    let back = serialize::load(&serialize::save(&saved).unwrap()).unwrap();
    assert_eq!(back.len(), saved.len());
    for (name, tensor) in saved.iter() {
        let read = back.get(name).unwrap();
        assert_eq!(read.sizes(), tensor.sizes(), "{name}");
        assert_eq!(read.to_vec::<i64>().unwrap(), tensor.to_vec::<i64>().unwrap(), "{name}");
    }
}

#[test]
fn models_go_through_files() {
    let folder = std::env::temp_dir().join(format!("tensor-serialize-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("model.safetensors");
    let build = || nn::sequential![nn::Linear::new(3, 4).unwrap(), nn::BatchNorm1d::new(4).unwrap()];
    let (net, other) = {
        let _generator = generator();
        (build(), build())
    };
    serialize::save_file(&net.state_dict().unwrap(), &file).unwrap();
    other.load_state_dict(&serialize::load_file(&file).unwrap()).unwrap();
    let x = Tensor::ones(&[2, 3], ()).unwrap();
    net.eval();
    other.eval();
    let values = |net: &nn::Sequential| net.forward(&x).unwrap().detach().unwrap().to_vec::<f32>().unwrap();
    assert_eq!(values(&net), values(&other));
    // Nothing is left beside the file, and it can be written over.
    serialize::save_file(&other.state_dict().unwrap(), &file).unwrap();
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_file_is_an_error() {
    let error = serialize::load_file("/nonexistent/model.safetensors").unwrap_err();
    assert!(error.message().starts_with("/nonexistent/model.safetensors: "), "{error}");
    let good = serialize::save(&state([("x", Tensor::zeros(&[2, 2], ()).unwrap())])).unwrap();
    for end in 0..good.len() {
        assert!(serialize::load(&good[..end]).is_err(), "cut at {end}");
    }
    let mut lying = good.clone();
    lying[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(serialize::load(&lying).is_err());
    let meta = state([("x", Tensor::empty(&[2], Device::META).unwrap())]);
    assert!(serialize::save(&meta).unwrap_err().message().contains("meta device"));
    assert!(serialize::save_file(&state([]), "/nonexistent/x.safetensors").is_err());
}

#[test]
fn saving_refuses_no_other_thread() {
    let x = Tensor::zeros(&[5000], DType::F32).unwrap();
    let saved = state([("x", x.clone()), ("view", x.i(100..200).unwrap())]);
    let reader = x.as_slice::<f32>().unwrap();
    serialize::save(&saved).unwrap();
    drop(reader);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..2000).all(|_| x.add_scalar_(1.0).is_ok()));
        while !writer.is_finished() {
            let back = serialize::load(&serialize::save(&saved).unwrap()).unwrap();
            for (name, tensor) in back.iter() {
                let values = tensor.to_vec::<f32>().unwrap();
                assert!(values.iter().all(|&value| value == values[0]), "{name} was written meanwhile");
            }
        }
        assert!(writer.join().unwrap(), "a writer was refused");
    });
}
