//! Windows against their definition.

use tensor_aten::kernels::{PoolShape, PoolWindow};

use super::lines::{Stage, Steps};
use super::windows::Windows;

#[test]
fn windows_are_what_their_definition_says() {
    for (image, kernel, stride, pad, dilation) in
        [(7, 3, 2, 1, 1), (6, 2, 2, 1, 1), (9, 3, 1, 1, 2), (5, 4, 3, 2, 1), (8, 2, 5, 0, 3), (4, 3, 2, 1, 2)]
    {
        let results = (image + 2 * pad - (kernel - 1) * dilation - 1) / stride + 1;
        let s = PoolShape {
            planes: 1,
            channels: 1,
            image: [1, 1, image],
            result: [1, 1, results],
            window: PoolWindow::Fixed {
                kernel: [1, 1, kernel],
                stride: [1, 1, stride],
                padding: [0, 0, pad],
                dilation: [1, 1, dilation],
            },
        };
        let [_, _, windows] = Windows::all(&s);
        let steps = Steps::of(&s).unwrap();
        let mut stage = Stage::new(&steps, image, -1i64);
        stage.put(&(0..image as i64).collect::<Vec<_>>());
        for o in 0..results {
            let at = |k: usize| (o * stride + k * dilation).checked_sub(pad).filter(|&i| i < image);
            let expected: Vec<usize> = (0..kernel).filter_map(at).collect();
            let (a, b) = windows.bounds[o];
            assert_eq!(
                (a..b).step_by(windows.step).collect::<Vec<_>>(),
                expected,
                "{image} {kernel} {stride} {pad} at {o}"
            );
            let seen = (0..kernel).map(|k| stage.from(k * dilation)[o * stride]);
            let seen: Vec<usize> = seen.filter(|&i| i >= 0).map(|i| i as usize).collect();
            assert_eq!(seen, expected);
            if dilation == 1 {
                for i in 0..image {
                    assert_eq!(windows.holding(i).contains(&o), expected.contains(&i));
                }
            }
        }
    }
}

#[test]
fn adaptive_windows_cover_the_image() {
    for (image, results) in [(7, 3), (4, 6), (5, 5), (9, 1)] {
        let s = PoolShape {
            planes: 1,
            channels: 1,
            image: [1, 1, image],
            result: [1, 1, results],
            window: PoolWindow::Adaptive,
        };
        let [_, _, windows] = Windows::all(&s);
        assert_eq!(windows.bounds[0].0, 0);
        assert_eq!(windows.bounds[results - 1].1, image);
        assert!(windows.bounds.windows(2).all(|w| w[1].0 <= w[0].1));
    }
}
