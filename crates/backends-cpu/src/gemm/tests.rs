//! Products against their definition.

use tensor_core::Element;

use super::*;
use crate::isa::{Baseline, V3, V4, level};
use crate::parallel::{SERIAL, set_num_threads};
use crate::with_level;

/// Small integers, so that every dtype's products are exact.
fn element<T: Element>(i: usize) -> T {
    T::from_scalar((((i * 7919) % 5) as i64 - 2).into())
}

/// A matrix of the elements from `seed` on, laid out row after row, column after column, or with gaps in both directions.
struct Laid<T> {
    elements: Vec<T>,
    shape: [usize; 2],
    strides: [usize; 2],
}

impl<T: Element> Laid<T> {
    fn new(rows: usize, cols: usize, order: usize, seed: usize) -> Self {
        let strides = match order {
            0 => [cols, 1],
            1 => [1, rows],
            _ => [cols * 3 + 1, 2],
        };
        let len = rows * strides[0].max(1) + cols * strides[1];
        Self { elements: (seed..seed + len).map(element).collect(), shape: [rows, cols], strides }
    }

    fn read(&self) -> MatRef<'_, T> {
        MatRef::new(&self.elements, self.shape[0], self.shape[1], self.strides[0], self.strides[1]).unwrap()
    }

    fn write(&mut self) -> MatMut<'_, T> {
        MatMut::new(&mut self.elements, self.shape[0], self.shape[1], self.strides[0], self.strides[1]).unwrap()
    }
}

/// Against the definition: a shape, the orders of `a`, `b` and `c`, and two numbers. What is added lies in `c`, and apart from it: as a
/// matrix, as one row for all rows, and as one column for all columns.
fn agrees<I: Isa, T: Gemm>([m, n, k]: [usize; 3], orders: [usize; 3], (alpha, beta): (i64, i64)) {
    let of = |v: i64| T::from_scalar(v.into()).up();
    let (a, b) = (Laid::<T>::new(m, k, orders[0], 0), Laid::<T>::new(k, n, orders[1], 3));
    let products: Vec<T::Op> = (0..m * n)
        .map(|at| {
            (0..k).fold(<T::Op as Arith>::ZERO, |sum, p| {
                sum.add(a.read().at(at / n, p).up().mul(b.read().at(p, at % n).up()))
            })
        })
        .collect();
    let own = Laid::<T>::new(m, n, orders[2], 5);
    let (apart, row, col) =
        (Laid::<T>::new(m, n, orders[0], 4), Laid::<T>::new(1, n, 0, 1), Laid::<T>::new(m, 1, 0, 2));
    let row = MatRef::new(&row.elements, m, n, 0, 1).unwrap();
    let col = MatRef::new(&col.elements, m, n, 1, 0).unwrap();
    for (old, from) in [(own.read(), None), (apart.read(), Some(apart.read())), (row, Some(row)), (col, Some(col))] {
        let mut new = Laid::<T>::new(m, n, orders[2], 5);
        gemm_onto::<I, T>(of(alpha), a.read(), b.read(), of(beta), from, new.write()).unwrap();
        for (at, &product) in products.iter().enumerate() {
            let (i, j) = (at / n, at % n);
            let expected = T::down(of(alpha).mul(product).add(of(beta).mul(old.at(i, j).up())));
            assert_eq!(new.read().at(i, j), expected, "{m} {n} {k} orders {orders:?} at {i}, {j}");
        }
    }
}

/// Shapes that take every path: tiles of every height and width, edges, stretches, vectors, nothing.
fn agrees_everywhere<I: Isa, T: Gemm>() {
    let mut numbers = [(1, 0), (2, 1), (3, 3)].into_iter().cycle();
    let mut orders = (0..27).map(|i| [i % 3, i / 3 % 3, i / 9]).cycle();
    for m in [2, 3, 5, 7, 8, 12, 13, 27] {
        for n in [2, 7, 8, 15, 16, 17, 31, 32, 33, 70] {
            for k in [1, 3, 4, 18] {
                agrees::<I, T>([m, n, k], orders.next().unwrap(), numbers.next().unwrap());
            }
        }
    }
    for shape in
        [[1, 1, 1], [1, 50, 64], [50, 1, 64], [600, 1, 40], [1, 9, 1], [2, 3, 0], [0, 3, 2], [37, 41, 531], [9, 3, 77]]
    {
        for _ in 0..27 {
            agrees::<I, T>(shape, orders.next().unwrap(), numbers.next().unwrap());
        }
    }
    agrees::<I, T>([20, 33, 1203], [1, 0, 1], (2, 3));
    // More columns than a block has.
    agrees::<I, T>([13, 1100, 5], [0, 0, 0], (1, 0));
    // More strips than a band has, in two stretches.
    agrees::<I, T>([110, 19, 300], [0, 1, 0], (1, 2));
}

fn agrees_at_every_level<T: Gemm>() {
    agrees_everywhere::<Baseline, T>();
    if level() >= Level::V3 {
        agrees_everywhere::<V3, T>();
    }
    if level() >= Level::V4 {
        agrees_everywhere::<V4, T>();
    }
}

#[test]
fn products_of_floats_agree_with_the_definition() {
    agrees_at_every_level::<f32>();
    agrees_at_every_level::<f64>();
}

#[test]
fn products_of_halves_agree_with_the_definition() {
    agrees_at_every_level::<f16>();
    agrees_at_every_level::<bf16>();
}

#[test]
fn products_of_integers_agree_with_the_definition() {
    agrees_everywhere::<Baseline, u8>();
    agrees_everywhere::<Baseline, i8>();
    agrees_everywhere::<Baseline, i16>();
    agrees_at_every_level::<i32>();
    agrees_at_every_level::<i64>();
}

#[test]
fn products_of_complex_numbers_agree_with_the_definition() {
    agrees_everywhere::<Baseline, Complex<f32>>();
    agrees_everywhere::<Baseline, Complex<f64>>();
}

/// Any numbers, of which sums in another order have other bits.
fn same_bits<T: Gemm>(shape: [usize; 3]) {
    let _serial = SERIAL.lock();
    let [m, n, k] = shape;
    let mut number = 1u64;
    let mut fill = |len: usize| -> Vec<T> {
        let mut next = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            T::from_scalar(((number >> 40) as f64 / (1 << 23) as f64 - 1.0).into())
        };
        (0..len).map(|_| next()).collect()
    };
    let (a, b) = (fill(m * k), fill(k * n));
    let run = |threads: usize, turned: bool| {
        set_num_threads(threads);
        let mut c = vec![T::zeroed(); m * n];
        let a = MatRef::row_major(&a, m, k).unwrap();
        let b = if turned { MatRef::row_major(&b, n, k).unwrap().t() } else { MatRef::row_major(&b, k, n).unwrap() };
        let out = MatMut::row_major(&mut c, m, n).unwrap();
        with_level!(I => gemm::<I, T>(<T::Op as Arith>::ONE, a, b, <T::Op as Arith>::ZERO, out)).unwrap();
        c
    };
    for turned in [true, false] {
        let expected = run(1, turned);
        for threads in [2, 3, 7] {
            assert!(run(threads, turned) == expected, "{} {shape:?} on {threads} threads", T::DTYPE);
        }
    }
    set_num_threads(2);
}

#[test]
fn edges_of_every_width_are_written_once() {
    for n in 2..=34 {
        for numbers in [(1, 0), (2, 3)] {
            with_level!(I => agrees::<I, f32>([13, n, 5], [0, 0, 0], numbers));
            with_level!(I => agrees::<I, f64>([7, n, 5], [1, 1, 0], numbers));
            with_level!(I => agrees::<I, i64>([5, n, 3], [0, 1, 0], numbers));
        }
    }
}

#[test]
fn products_with_a_vector_are_shared_out() {
    for (shape, orders) in [([1, 300, 900], [0, 0, 0]), ([1, 9000, 31], [0, 0, 0]), ([9000, 1, 31], [1, 0, 0])] {
        with_level!(I => agrees::<I, f32>(shape, orders, (2, 3)));
        with_level!(I => agrees::<I, i64>(shape, orders, (1, 0)));
    }
}

#[test]
fn results_do_not_depend_on_the_number_of_threads() {
    for shape in [
        [17, 300, 600],
        [300, 17, 200],
        [130, 257, 1030],
        [2, 1000, 700],
        [64, 49, 2000],
        [3000, 3, 100],
        [1, 700, 900],
        [30, 1200, 40],
    ] {
        same_bits::<f32>(shape);
        same_bits::<f64>(shape);
        same_bits::<bf16>(shape);
        same_bits::<f16>(shape);
        same_bits::<Complex<f32>>(shape);
    }
}

#[test]
fn old_values_do_not_matter_without_beta() {
    let (a, b) = ([1f32; 6], [1f32; 6]);
    let mut c = [f32::NAN; 4];
    let (a, b) = (MatRef::row_major(&a, 2, 3).unwrap(), MatRef::row_major(&b, 3, 2).unwrap());
    gemm::<Baseline, f32>(1.0, a, b, 0.0, MatMut::row_major(&mut c, 2, 2).unwrap()).unwrap();
    assert_eq!(c, [3.0; 4]);
    assert!(MatRef::row_major(&c, 3, 2).is_err());
    assert!(MatMut::new(&mut c, 2, 2, 1, 1).is_err());
}

#[test]
fn what_is_no_number_stays_in_its_row_and_column() {
    let (m, n, k) = (13, 35, 9);
    let (mut a, mut b) = (vec![1f32; m * k], vec![1f32; k * n]);
    a[12 * k + 3] = f32::NAN;
    b[2 * n + 34] = f32::INFINITY;
    let mut c = vec![0f32; m * n];
    let (a, b) = (MatRef::row_major(&a, m, k).unwrap(), MatRef::row_major(&b, k, n).unwrap());
    with_level!(I => gemm::<I, f32>(1.0, a, b, 0.0, MatMut::row_major(&mut c, m, n).unwrap())).unwrap();
    for (i, value) in c.into_iter().enumerate() {
        match (i / n, i % n) {
            (12, _) => assert!(value.is_nan()),
            (_, 34) => assert_eq!(value, f32::INFINITY),
            _ => assert_eq!(value, 9.0),
        }
    }
}

#[test]
fn dots_of_any_length() {
    for n in [0, 1, 31, 32, 100, 70_000] {
        let x: Vec<f64> = (0..n).map(|i| (i % 5) as f64).collect();
        let expected: f64 = x.iter().map(|v| v * v).sum();
        with_level!(I => assert_eq!(dot::<I, f64>(&x, &x), expected));
    }
}
