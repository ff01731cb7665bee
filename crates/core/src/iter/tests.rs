//! Plans against PyTorch's results (`tests/data/iter_layouts.txt`) and against a naive walk.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{Storage, overlap};

fn strided(sizes: &[i64], strides: &[i64], dtype: DType) -> TensorRef {
    let bytes = strides::storage_bytes(sizes, strides, dtype.itemsize(), 0).unwrap();
    let storage = Storage::allocate(bytes, Device::CPU).unwrap();
    TensorImpl::new(storage, dtype, sizes, strides, 0).unwrap()
}

fn dense(sizes: &[i64], dtype: DType) -> TensorRef {
    strided(sizes, &strides::contiguous(sizes), dtype)
}

fn view(of: &TensorRef, sizes: &[i64], strides: &[i64], offset: i64) -> TensorRef {
    TensorImpl::new(of.storage().clone(), of.dtype(), sizes, strides, offset).unwrap()
}

fn meta(sizes: &[i64]) -> TensorRef {
    let sizes = Dims::from_slice(sizes);
    TensorImpl::empty(sizes.clone(), strides::contiguous(&sizes), DType::F32, Device::META).unwrap()
}

fn text(result: Result<TensorIter>) -> String {
    result.err().map(|error| error.message().to_owned()).unwrap_or_default()
}

/// Makes the temporaries that the layer above makes, without their elements.
fn cast_all(iter: &mut TensorIter) {
    for cast in iter.casts() {
        let temporary = iter.temporary(cast.index).unwrap();
        iter.set_operand(cast.index, temporary).unwrap();
    }
    assert!(iter.is_ready());
    iter.locked(|_| ()).unwrap();
}

/// For each element of the operation, the byte offset in each operand, from its tensor as it is.
fn naive_offsets(iter: &TensorIter) -> HashMap<Vec<isize>, usize> {
    let sizes = iter.sizes();
    let mut all = HashMap::new();
    for element in 0..iter.numel() {
        let mut rest = element;
        let mut index = vec![0; sizes.len()];
        for d in (0..sizes.len()).rev() {
            index[d] = rest % sizes[d];
            rest /= sizes[d];
        }
        let offset = |i: usize| {
            let tensor = iter.tensor(i);
            let (shape, strides) = (tensor.sizes(), tensor.strides());
            let index = &index[sizes.len() - shape.len()..];
            let at = |d: usize| if shape[d] == 1 { 0 } else { index[d] * strides[d] };
            (0..shape.len()).map(at).sum::<i64>() as isize * tensor.dtype().itemsize() as isize
        };
        *all.entry((0..iter.operands().len()).map(offset).collect()).or_default() += 1;
    }
    all
}

/// The same from the walk, in ranges of at most `grain` elements.
fn walked_offsets(iter: &TensorIter, grain: usize) -> HashMap<Vec<isize>, usize> {
    let mut all = HashMap::new();
    let total = iter.numel() as usize;
    for begin in (0..total).step_by(grain) {
        let end = (begin + grain).min(total);
        let mut seen = 0;
        iter.for_each_chunk(begin, end, |offsets, size0, size1| {
            seen += size0 * size1;
            for (i1, i0) in (0..size1).flat_map(|i1| (0..size0).map(move |i0| (i1, i0))) {
                let at = |i: usize| offsets[i] + i0 as isize * iter.strides0(i) + i1 as isize * iter.strides1(i);
                *all.entry((0..offsets.len()).map(at).collect()).or_default() += 1;
            }
        });
        assert_eq!(seen, end - begin);
    }
    all
}

fn parse(tensor: &str) -> (Vec<i64>, Vec<i64>, DType) {
    let list = |text: &str| text.split(',').filter(|n| !n.is_empty()).map(|n| n.parse().unwrap()).collect();
    let parts: Vec<&str> = tensor.split('/').collect();
    (list(parts[0]), list(parts[1]), parts[2].parse().unwrap())
}

#[test]
fn results_have_pytorchs_shape_strides_and_dtype() {
    let mut wrong = Vec::new();
    for line in include_str!("../../tests/data/iter_layouts.txt").lines().filter(|line| !line.starts_with('#')) {
        let (call, result) = line.split_once(" = ").unwrap();
        let mut words = call.split(' ');
        let kind = words.next().unwrap();
        let inputs: Vec<TensorRef> = words
            .map(|word| {
                let (sizes, strides, dtype) = parse(word);
                strided(&sizes, &strides, dtype)
            })
            .collect();
        let config = || match (kind, inputs.as_slice()) {
            ("unary", [a]) => IterConfig::unary_op(None, a),
            ("unary_float", [a]) => IterConfig::unary_float_op(None, a),
            ("binary", [a, b]) => IterConfig::binary_op(None, a, b),
            ("binary_float", [a, b]) => IterConfig::binary_float_op(None, a, b),
            ("comparison", [a, b]) => IterConfig::comparison_op(None, a, b),
            ("ternary", [a, b, c]) => IterConfig::ternary_op(None, a, b, c),
            _ => panic!("unknown case {line}"),
        };
        let (sizes, strides, dtype) = parse(result);
        let mut iter = config().build().unwrap();
        for out in [iter.output(0), config().plan_general().unwrap().output(0)] {
            if (out.sizes(), out.strides(), out.dtype()) != (&sizes, &strides, dtype) {
                wrong.push(format!("{line}: got {:?}", out.strides()));
            }
        }
        cast_all(&mut iter);
        if iter.numel() < 200 {
            assert_eq!(walked_offsets(&iter, 1000), naive_offsets(&iter), "{line}");
        }
    }
    assert!(wrong.is_empty(), "{} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// A view of a base of some elements.
#[derive(Clone, Debug)]
struct View {
    elements: i64,
    sizes: Vec<i64>,
    strides: Vec<i64>,
    offset: i64,
}

impl View {
    fn make(&self) -> TensorRef {
        view(&dense(&[self.elements], DType::F32), &self.sizes, &self.strides, self.offset)
    }
}

/// A tensor of a shape that broadcasts to `shape`, in a random layout, perhaps expanded, with gaps or an offset.
fn operand(shape: Vec<i64>) -> impl Strategy<Value = View> {
    let n = shape.len();
    let order = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
    (order, prop::collection::vec(0..4u8, n), 0..=n, 1..3i64, 0..3i64).prop_map(
        move |(order, kinds, drop, gap, offset)| {
            let mut sizes = shape.clone();
            let mut strides = vec![0; n];
            let mut next = gap;
            for &d in &order {
                match kinds[d] {
                    0 => sizes[d] = 1,
                    1 => continue,
                    _ => {}
                }
                strides[d] = next;
                next *= sizes[d].max(1);
            }
            let drop = if drop == n { 0 } else { drop };
            View { elements: next + offset, sizes: sizes[drop..].into(), strides: strides[drop..].into(), offset }
        },
    )
}

fn shapes() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![8 => 1..5i64, 1 => Just(0i64)], 0..6)
}

proptest! {
    #[test]
    fn a_walk_visits_each_element_once(
        (a, b) in shapes().prop_flat_map(|shape| (operand(shape.clone()), operand(shape))),
        grain in 1..40usize,
    ) {
        let (a, b) = (a.make(), b.make());
        let iter = IterConfig::binary_op(None, &a, &b).build().unwrap();
        prop_assert_eq!(iter.numel(), iter.shape().iter().product::<i64>());
        prop_assert_eq!(walked_offsets(&iter, grain), naive_offsets(&iter));
        prop_assert_eq!(walked_offsets(&iter, usize::MAX), naive_offsets(&iter));
    }

    #[test]
    fn the_short_way_plans_as_the_general_one(shape in shapes(), same in any::<bool>(), number in 0..3u8, odd in 1..3i64) {
        // Dimensions of size 1 may have any stride.
        let mut strides = strides::contiguous(&shape);
        for (stride, &size) in strides.iter_mut().zip(&shape) {
            *stride *= if size == 1 { odd } else { 1 };
        }
        let (a, b) = (strided(&shape, &strides, DType::F32), dense(&shape, DType::F32));
        let (a, b) = match number {
            0 => (a, b),
            1 => (a, dense(&[], DType::F32)),
            _ => (dense(&[], DType::F32), a),
        };
        let out = (same && (number < 2 || shape.is_empty())).then_some(&a);
        let short = IterConfig::binary_op(out, &a, &b).build().unwrap();
        let general = IterConfig::binary_op(out, &a, &b).plan_general().unwrap();
        prop_assert_eq!(short.shape(), general.shape());
        prop_assert_eq!(short.sizes(), general.sizes());
        prop_assert_eq!(short.common_dtype(), general.common_dtype());
        for (i, (x, y)) in short.operands().iter().zip(general.operands()).enumerate() {
            prop_assert_eq!(short.strides(i), general.strides(i));
            prop_assert_eq!((x.dtype, x.is_output, x.fresh), (y.dtype, y.is_output, y.fresh));
        }
        prop_assert_eq!(short.output(0).strides(), general.output(0).strides());
    }

    #[test]
    fn replaced_operands_are_walked_with_their_own_strides(
        (a, b) in shapes().prop_flat_map(|shape| (operand(shape.clone()), operand(shape))),
    ) {
        let (a, double) = (a.make(), dense(&b.sizes, DType::F64));
        let mut iter = IterConfig::binary_op(None, &a, &double).build().unwrap();
        prop_assert_eq!(iter.casts().len(), 1);
        let mut strides = vec![0; a.dim()];
        let mut next = 1;
        for (stride, &size) in strides.iter_mut().zip(a.sizes()) {
            *stride = next;
            next *= size.max(1);
        }
        iter.set_operand(1, strided(a.sizes(), &strides, DType::F64)).unwrap();
        prop_assert!(iter.is_ready());
        prop_assert_eq!(walked_offsets(&iter, 7), naive_offsets(&iter));
    }
}

#[test]
fn dimensions_are_merged() {
    let a = dense(&[2, 3, 4], DType::F32);
    let flat = IterConfig::unary_op(None, &a).build().unwrap();
    assert_eq!((flat.shape(), flat.strides0(0), flat.strides1(0)), (&[24][..], 4, 0));
    assert!(flat.is_contiguous());

    let row = dense(&[4], DType::F32);
    let rows = IterConfig::binary_op(None, &a, &row).build().unwrap();
    assert_eq!(rows.shape(), [4, 6]);
    assert_eq!((rows.strides0(2), rows.strides1(2)), (4, 0));
    assert!(!rows.is_contiguous());

    let zero_dim = dense(&[], DType::F32);
    let one = IterConfig::unary_op(None, &zero_dim).build().unwrap();
    assert_eq!((one.shape(), one.numel(), one.strides0(1)), (&[1][..], 1, 4));
    assert!(one.output(0).sizes().is_empty());
}

#[test]
fn outputs_are_used_resized_or_refused() {
    let (a, b) = (dense(&[2, 3], DType::F32), dense(&[3], DType::F32));
    let wrong = dense(&[7], DType::F32);
    let iter = IterConfig::binary_op(Some(&wrong), &a, &b).build().unwrap();
    assert!(iter.operand(0).resized && !iter.operand(0).fresh);
    assert_eq!((wrong.sizes(), wrong.strides()), (&[2, 3][..], &[3, 1][..]));
    assert!(Ref::ptr_eq(iter.output(0), &wrong));

    let column = strided(&[2, 3], &[1, 2], DType::F32);
    let empty = dense(&[0], DType::F32);
    drop(IterConfig::unary_op(Some(&empty), &column).build().unwrap());
    assert_eq!(empty.strides(), [1, 2]);

    let mismatch = "output with shape [3] doesn't match the broadcast shape [2, 3]";
    assert_eq!(text(IterConfig::binary_op(Some(&b), &b, &a).build()), mismatch);
    let fixed = IterConfig::unary_op(Some(&b), &a).resize_outputs(false);
    assert_eq!(text(fixed.build()), mismatch);
    assert_eq!(b.sizes(), [3]);
    let foreign = TensorImpl::new(Storage::from_vec(vec![0f32; 2]), DType::F32, &[2], &[1], 0).unwrap();
    assert_eq!(
        text(IterConfig::unary_op(Some(&foreign), &a).build()),
        "Trying to resize storage that is not resizable"
    );
}

#[test]
fn overlap_is_refused_before_anything_is_resized() {
    let inside = "unsupported operation: more than one element of the written-to tensor refers to a single memory \
                  location. Please clone() the tensor before performing the operation.";
    let between = "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single \
                   memory location. Please clone() the tensor before performing the operation.";
    let x = dense(&[5], DType::F32);
    let expanded = view(&x, &[4], &[0], 0);
    assert_eq!(text(IterConfig::unary_op(Some(&expanded), &expanded).build()), inside);
    let (head, tail) = (view(&x, &[4], &[1], 0), view(&x, &[4], &[1], 1));
    assert_eq!(text(IterConfig::unary_op(Some(&tail), &head).build()), between);
    assert_eq!(text(IterConfig::unary_op(Some(&view(&x, &[2], &[1], 1)), &head).build()), between);
    assert!(IterConfig::unary_op(Some(&view(&x, &[4], &[1], 0)), &head).build().is_ok());
    assert!(IterConfig::unary_op(Some(&tail), &head).check_mem_overlap(false).build().is_ok());

    let (left, right) = (view(&x, &[2], &[1], 0), view(&x, &[2], &[1], 2));
    assert!(overlap::assert_no_overlap(&left, &right).is_ok());
    assert!(overlap::assert_no_overlap(&left, &view(&x, &[2], &[1], 0)).is_err());
    let square = dense(&[2, 2], DType::F32);
    let transposed = view(&square, &[2, 2], &[1, 2], 0);
    assert_eq!(overlap::overlap(&square, &transposed), overlap::Overlap::Partial);
    assert_eq!(overlap::overlap(&square, &view(&square, &[2], &[2], 0)), overlap::Overlap::TooHard);
    assert!(overlap::has_internal_overlap(&expanded) && !overlap::has_internal_overlap(&transposed));
}

#[test]
fn a_comparison_in_place_is_cast_back() {
    let x = dense(&[3], DType::F32);
    let plan = IterConfig::comparison_op(Some(&x), &x, &x).build().unwrap();
    assert_eq!((plan.dtype(0), plan.dtype(1), plan.casts().len()), (DType::Bool, DType::F32, 1));
}

#[test]
fn dtypes_that_do_not_fit_are_refused() {
    let (f32s, f64s, ints) = (dense(&[3], DType::F32), dense(&[3], DType::F64), dense(&[3], DType::I64));
    let unsafe_cast = "result type Float can't be cast to the desired output type Long";
    assert_eq!(text(IterConfig::binary_op(Some(&ints), &ints, &f32s).build()), unsafe_cast);
    assert_eq!(text(IterConfig::unary_float_op(Some(&ints), &ints).build()), unsafe_cast);
    assert_eq!(text(IterConfig::unary_op(Some(&f64s), &f32s).build()), "Found dtype Double but expected Float");
    assert_eq!(
        text(IterConfig::binary_op(None, &dense(&[2, 3], DType::F32), &dense(&[2, 4], DType::F32)).build()),
        "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1"
    );
}

#[test]
fn devices_that_do_not_fit_are_refused() {
    let (cpu, other) = (dense(&[3], DType::F32), meta(&[3]));
    let texts = [
        (IterConfig::binary_op(None, &cpu, &other), "Tensor on device meta is not on the expected device cpu!"),
        (IterConfig::binary_op(None, &other, &cpu), "Tensor on device cpu is not on the expected device meta!"),
        (
            IterConfig::binary_op(Some(&other), &cpu, &cpu),
            "Attempting to copy from device cpu to device meta, but cross-device copies are not allowed!",
        ),
    ];
    for (config, expected) in texts {
        assert_eq!(text(config.build()), expected);
    }
    let scalar = dense(&[], DType::F32);
    let iter = IterConfig::binary_op(None, &other, &scalar).build().unwrap();
    assert!(iter.device().is_meta() && iter.output(0).device().is_meta());
}

#[test]
fn casts_are_listed_and_made() {
    let (a, b) = (dense(&[2, 3], DType::F32), dense(&[2, 3], DType::F64));
    // In place: the f32 output is written as f64 and copied back.
    let mut iter = IterConfig::binary_op(Some(&a), &a, &b).build().unwrap();
    assert_eq!(iter.common_dtype(), DType::F64);
    let casts: Vec<_> = iter.casts().iter().map(|cast| (cast.index, cast.from, cast.to, cast.is_output)).collect();
    assert_eq!(casts, [(0, DType::F32, DType::F64, true), (1, DType::F32, DType::F64, false)]);
    assert!(iter.locked(|_| ()).is_err());
    assert!(iter.set_operand(1, b.clone()).is_ok());
    assert!(iter.set_operand(0, dense(&[3, 2], DType::F64)).is_err());
    cast_all(&mut iter);
    assert!(Ref::ptr_eq(iter.output(0), &a));
    assert_eq!((iter.shape(), iter.tensor(0).dtype()), (&[6][..], DType::F64));

    let ints = dense(&[3], DType::I64);
    let mean = IterConfig::unary_float_op(None, &ints).build().unwrap();
    assert_eq!((mean.output(0).dtype(), mean.operand(1).dtype), (DType::F32, DType::F32));
    let half = IterConfig::unary_op(None, &ints).number(Scalar::Float(0.5)).promote_inputs(true).build().unwrap();
    assert_eq!(half.common_dtype(), DType::F32);
    let equal = IterConfig::comparison_op(None, &ints, &a).build();
    assert_eq!(equal.unwrap().output(0).dtype(), DType::Bool);
    let number = dense(&[], DType::F64);
    number.set_wrapped_number(true);
    assert_eq!(IterConfig::binary_op(None, &number, &number).build().unwrap().common_dtype(), DType::F32);
}

#[test]
fn reductions_walk_reduced_dimensions_inside() {
    let a = dense(&[2, 3, 4], DType::F32);
    let out = dense(&[2, 1, 4], DType::F32);
    let iter = IterConfig::reduce_op(&out, &a).build().unwrap();
    assert_eq!((iter.shape(), iter.num_reduce_dims()), (&[3, 4, 2][..], 1));
    let mut kept = Vec::new();
    iter.walk(1..3, 0, usize::MAX, |offsets, size0, size1| {
        for i in 0..size0 * size1 {
            let (i0, i1) = (i % size0, i / size0);
            let strides = |operand: usize| {
                let s = iter.strides(operand);
                offsets[operand] + i0 as isize * s[1] + i1 as isize * s[2]
            };
            kept.push((strides(0), strides(1)));
        }
    });
    let expected: Vec<_> = (0..8).map(|i| (i * 4, (i / 4 * 12 + i % 4) * 4)).collect();
    assert_eq!(kept, expected);
    assert_eq!(walked_offsets(&iter, 5), naive_offsets(&iter));

    let empty = dense(&[2, 0], DType::F32);
    let sums = dense(&[2, 1], DType::F32);
    let iter = IterConfig::reduce_op(&sums, &empty).build().unwrap();
    let mut rows = 0;
    iter.walk(1..2, 0, usize::MAX, |_, size0, size1| rows += size0 * size1);
    assert_eq!((iter.numel(), rows), (0, 2));
}

#[test]
fn static_shapes_stay_within_memory() {
    let x = dense(&[4], DType::F32);
    let taken = view(&x, &[1], &[1], 0);
    let config = |shape| IterConfig::unary_op(Some(&x), &taken).check_mem_overlap(false).static_shape(shape);
    let iter = config(&[4]).build().unwrap();
    assert_eq!((iter.shape(), iter.strides0(1)), (&[4][..], 4));
    assert!(config(&[5]).build().is_err());
    assert!(config(&[2, 2]).build().is_err());
}

#[test]
fn tensors_changed_since_the_plan_are_refused() {
    let (a, b) = (dense(&[2, 3], DType::F32), dense(&[2, 3], DType::F32));
    let iter = IterConfig::binary_op(None, &a, &b).build().unwrap();
    iter.locked(|_| ()).unwrap();
    let small = Storage::allocate(4, Device::CPU).unwrap();
    b.set_metadata(small, DType::F32, Dims::from_slice(&[1]), Dims::from_slice(&[1]), 0).unwrap();
    assert!(iter.locked(|_| ()).is_err());
}

#[test]
fn absurd_shapes_are_errors() {
    let huge = |sizes: &[i64]| {
        let one = dense(&[1], DType::F32);
        view(&one, sizes, &vec![0; sizes.len()], 0)
    };
    let (a, b) = (huge(&[1 << 40, 1]), huge(&[1, 1 << 40]));
    assert!(IterConfig::binary_op(None, &a, &b).build().is_err());
    let (a, b) = (huge(&[0, 1 << 40, 1]), huge(&[1, 1, 1 << 40]));
    let iter = IterConfig::binary_op(None, &a, &b).build().unwrap();
    assert_eq!(iter.numel(), 0);
    iter.for_each_chunk(0, usize::MAX, |_, _, _| panic!("nothing to visit"));
    assert!(IterConfig::new().build().is_ok());
    assert!(IterConfig::new().output(None).build().is_err());
}
