//! Stride arithmetic against naive versions that list every element, on small random tensors.

use proptest::prelude::*;
use std::collections::BTreeSet;
use tensor_core::MemoryFormat;
use tensor_core::strides::{self, Dims};

/// Every index of a shape, in row-major order.
fn indices(sizes: &[i64]) -> Vec<Vec<i64>> {
    let mut all = vec![vec![]];
    for &size in sizes {
        all = all.iter().flat_map(|head| (0..size).map(move |i| [&head[..], &[i]].concat())).collect();
    }
    all
}

/// The offset of every element, in row-major order.
fn offsets(sizes: &[i64], strides: &[i64]) -> Vec<i64> {
    indices(sizes).iter().map(|index| index.iter().zip(strides).map(|(i, s)| i * s).sum()).collect()
}

fn product(sizes: &[i64]) -> i64 {
    sizes.iter().product()
}

/// The only strides that could show these offsets in a shape, if they do.
fn naive_view(offsets_wanted: &[i64], new: &[i64]) -> bool {
    let mut step = offsets_wanted.len() as i64;
    let strides: Vec<i64> = new
        .iter()
        .map(|&size| {
            step /= size;
            if size > 1 { offsets_wanted[step as usize] - offsets_wanted[0] } else { 0 }
        })
        .collect();
    offsets(new, &strides) == offsets_wanted
}

/// Up to five dimensions of up to four, some of them 0 or 1.
fn shape() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(prop_oneof![4 => 1..=4i64, 1 => Just(1), 1 => Just(0)], 0..=5)
}

/// A shape with strides: dense in some order of dimensions, then with gaps, steps of 0 or anything at all.
fn view() -> impl Strategy<Value = (Vec<i64>, Vec<i64>)> {
    let mutation = prop_oneof![
        5 => Just(None),
        1 => Just(Some(0)),
        1 => (1..=9i64).prop_map(Some),
    ];
    (shape(), any::<u64>(), prop::collection::vec(mutation, 5), 0..4u8).prop_map(|(sizes, order, mutations, kind)| {
        let mut dims: Vec<usize> = (0..sizes.len()).collect();
        if kind % 2 == 1 {
            dims.sort_by_key(|&d| (order >> (8 * d)) & 0xff);
        }
        let mut strides = vec![1; sizes.len()];
        let mut next = 1;
        for &d in dims.iter().rev() {
            strides[d] = next;
            next *= sizes[d].max(1);
        }
        if kind >= 2 {
            for (stride, mutation) in strides.iter_mut().zip(mutations) {
                *stride = mutation.unwrap_or(*stride);
            }
        }
        (sizes, strides)
    })
}

/// A shape of the same number of elements, got by merging, splitting and adding dimensions.
fn reshaped(sizes: &[i64], choices: u64) -> Vec<i64> {
    let mut new: Vec<i64> = Vec::new();
    let mut rest = choices;
    let mut choose = |n: u64| {
        let choice = rest % n;
        rest /= n;
        choice
    };
    for &size in sizes {
        match (new.last_mut(), choose(3)) {
            (Some(last), 0) => *last *= size,
            (_, 1) if size == 4 => new.extend([2, 2]),
            _ => new.push(size),
        }
        if choose(4) == 0 {
            new.push(1);
        }
    }
    new
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn views_show_the_same_elements((sizes, strides) in view(), choices in any::<u64>()) {
        let new = reshaped(&sizes, choices);
        prop_assert_eq!(product(&sizes), product(&new));
        let wanted = offsets(&sizes, &strides);
        match strides::view(&sizes, &strides, &new) {
            Some(got) => prop_assert_eq!(offsets(&new, &got), wanted),
            None => prop_assert!(!naive_view(&wanted, &new), "{:?} {:?} has a view as {:?}", sizes, strides, new),
        }
    }

    #[test]
    fn views_of_other_sizes_are_refused((sizes, strides) in view(), new in shape()) {
        if product(&sizes) != product(&new) {
            prop_assert_eq!(strides::view(&sizes, &strides, &new), None);
        }
    }

    #[test]
    fn contiguous_means_in_order((sizes, strides) in view()) {
        let in_order: Vec<i64> = (0..product(&sizes)).collect();
        prop_assert_eq!(strides::is_contiguous(&sizes, &strides), offsets(&sizes, &strides) == in_order);
        prop_assert!(strides::is_contiguous(&sizes, &strides::contiguous(&sizes)));
    }

    #[test]
    fn dense_means_each_place_once((sizes, strides) in view()) {
        let listed = offsets(&sizes, &strides);
        let distinct: BTreeSet<i64> = listed.iter().copied().collect();
        let dense = distinct.len() == listed.len() && distinct.into_iter().eq(0..product(&sizes));
        prop_assert_eq!(strides::is_non_overlapping_and_dense(&sizes, &strides), dense);
    }

    #[test]
    fn channels_last_means_in_order_once_permuted(
        sizes in prop::collection::vec(1..=3i64, 4..=5),
        mutation in prop::option::of((0..5usize, 0..9i64)),
    ) {
        let (format, order) = match sizes.len() {
            4 => (MemoryFormat::ChannelsLast, &[0, 2, 3, 1][..]),
            _ => (MemoryFormat::ChannelsLast3d, &[0, 2, 3, 4, 1][..]),
        };
        let mut strides = strides::of_format(&sizes, format).unwrap();
        prop_assert!(strides::is_channels_last(&sizes, &strides, format));
        prop_assert!(strides::is_channels_last_like(&sizes, &strides, format) || sizes[1..].iter().all(|&n| n == 1));
        if let Some((at, stride)) = mutation.filter(|&(at, _)| at < sizes.len()) {
            strides[at] = stride;
        }
        let permuted = |list: &[i64]| order.iter().map(|&d| list[d]).collect::<Vec<_>>();
        let naive = strides::is_contiguous(&permuted(&sizes), &permuted(&strides));
        prop_assert_eq!(strides::is_channels_last(&sizes, &strides, format), naive);
    }

    #[test]
    fn broadcasting_takes_the_size_that_is_not_one(a in shape(), b in shape()) {
        let ndim = a.len().max(b.len());
        let padded = |sizes: &[i64]| [&vec![1; ndim - sizes.len()][..], sizes].concat();
        let pairs: Vec<(i64, i64)> = padded(&a).into_iter().zip(padded(&b)).collect();
        let naive: Option<Dims> = pairs
            .iter()
            .map(|&pair| match pair {
                (x, y) if x == y => Some(x),
                (1, y) => Some(y),
                (x, 1) => Some(x),
                _ => None,
            })
            .collect();
        let got = strides::broadcast(&a, &b);
        match (got, naive) {
            (Ok(got), naive) => prop_assert_eq!(Some(got), naive),
            (Err(error), None) => {
                // The message names the last dimension that does not fit.
                let at = pairs.iter().rposition(|&(x, y)| x != y && x != 1 && y != 1).unwrap();
                let (x, y) = pairs[at];
                prop_assert_eq!(error.message(), format!(
                    "The size of tensor a ({x}) must match the size of tensor b ({y}) at non-singleton dimension {at}"
                ));
            }
            (Err(error), Some(_)) => prop_assert!(false, "{}", error),
        }
    }

    #[test]
    fn expanded_elements_are_the_source_s(
        (sizes, strides) in view(),
        lead in prop::collection::vec(0..=3i64, 0..=2),
        grown in prop::collection::vec(prop_oneof![Just(-1), 0..=3i64], 5),
    ) {
        let tail = sizes.iter().zip(&grown).map(|(&size, &to)| if size == 1 || to == -1 { to } else { size });
        let target: Vec<i64> = lead.iter().copied().chain(tail).collect();
        let (got_sizes, got_strides) = strides::expand(&sizes, &strides, &target).unwrap();
        prop_assert!(got_sizes.iter().zip(&target).all(|(&got, &wanted)| got == wanted || wanted == -1));
        let naive: Vec<i64> = indices(&got_sizes)
            .iter()
            .map(|index| {
                let own = index[lead.len()..].iter().zip(&sizes).zip(&strides);
                own.map(|((&i, &size), &stride)| if size == 1 { 0 } else { i * stride }).sum()
            })
            .collect();
        prop_assert_eq!(offsets(&got_sizes, &got_strides), naive);
    }

    #[test]
    fn expansion_to_another_size_is_refused((sizes, strides) in view(), at in 0..5usize, size in 0..9i64) {
        if at < sizes.len() && sizes[at] != 1 && sizes[at] != size {
            let mut target = sizes.clone();
            target[at] = size;
            let error = strides::expand(&sizes, &strides, &target).unwrap_err();
            prop_assert_eq!(error.message(), format!(
                "The expanded size of the tensor ({size}) must match the existing size ({}) at non-singleton dimension \
                 {at}.  Target sizes: {}.  Tensor sizes: {}",
                sizes[at], strides::show(&target), strides::show(&sizes)
            ));
        }
        if let Some((_, shorter)) = sizes.split_first() {
            prop_assert!(strides::expand(&sizes, &strides, shorter).is_err());
        }
    }

    #[test]
    fn one_size_is_inferred(sizes in shape(), hidden in 0..5usize, numel in 0..=64i64) {
        let mut asked = sizes.clone();
        if hidden < sizes.len() {
            asked[hidden] = -1;
            let got = strides::infer_size(&asked, product(&sizes));
            // Beside a size of 0 any number would do.
            let ambiguous = sizes.iter().enumerate().any(|(i, &size)| i != hidden && size == 0);
            match got {
                Ok(got) => prop_assert!(!ambiguous && got.as_slice() == sizes.as_slice()),
                Err(error) => prop_assert!(ambiguous && error.message().contains("is ambiguous"), "{}", error),
            }
        }
        let fits = (0..=64).any(|size| {
            let guess: Vec<i64> = asked.iter().map(|&x| if x == -1 { size } else { x }).collect();
            product(&guess) == numel
        });
        match strides::infer_size(&asked, numel) {
            Ok(got) => prop_assert_eq!(product(&got), numel),
            Err(error) => {
                let wrong = format!("shape '{}' is invalid for input of size {numel}", strides::show(&asked));
                prop_assert!(error.message().contains("is ambiguous") || (error.message() == wrong && !fits), "{}", error);
            }
        }
    }

    #[test]
    fn storage_reaches_the_last_element((sizes, strides) in view(), offset in 0..9i64) {
        let last = offsets(&sizes, &strides).into_iter().max().map_or(0, |last| last + offset + 1);
        prop_assert_eq!(strides::storage_bytes(&sizes, &strides, 4, offset).unwrap() as i64, 4 * last);
    }

    #[test]
    fn absurd_numbers_panic_nowhere(
        sizes in prop::collection::vec(prop_oneof![0..4i64, Just(i64::MAX), Just(1 << 62), any::<i64>()], 0..=6),
        strides in prop::collection::vec(prop_oneof![0..4i64, Just(i64::MAX), any::<i64>()], 6),
        other in prop::collection::vec(prop_oneof![-2..4i64, Just(i64::MAX), any::<i64>()], 0..=6),
    ) {
        let strides = &strides[..sizes.len()];
        let exact = sizes.iter().try_fold(1i64, |n, &size| n.checked_mul(size).filter(|_| size >= 0));
        prop_assert_eq!(strides::numel(&sizes).ok(), exact);
        let reach = sizes.iter().zip(strides).try_fold(1i128, |n, (&size, &stride)| {
            n.checked_add((size as i128 - 1) * stride as i128)
        });
        if let Ok(bytes) = strides::storage_bytes(&sizes, strides, 16, 0) {
            prop_assert!(sizes.contains(&0) || reach.and_then(|n| n.checked_mul(16)) == Some(bytes as i128));
        }
        strides::contiguous(&sizes);
        strides::is_contiguous(&sizes, strides);
        strides::is_non_overlapping_and_dense(&sizes, strides);
        strides::view(&sizes, strides, &other);
        strides::dense_like(&sizes, strides);
        let _ = strides::expand(&sizes, strides, &other);
        let _ = strides::broadcast(&sizes, &other);
        let _ = strides::infer_size(&other, sizes.first().copied().unwrap_or(1));
        for format in [MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d] {
            let _ = strides::of_format(&sizes, format);
            strides::is_channels_last(&sizes, strides, format);
            strides::is_channels_last_like(&sizes, strides, format);
        }
    }
}

#[test]
fn expansions_have_pytorchs_strides() {
    let strides_of =
        |sizes: &[i64], strides: &[i64], to: &[i64]| strides::expand(sizes, strides, to).unwrap().1.to_vec();
    assert_eq!(strides_of(&[], &[], &[1]), [0]);
    assert_eq!(strides_of(&[], &[], &[2, 3]), [0, 0]);
    assert_eq!(strides_of(&[3], &[1], &[2, 0, 3]), [0, 0, 1]);
    assert_eq!(strides_of(&[3], &[1], &[1, 3]), [3, 1]);
    assert_eq!(strides_of(&[1], &[1], &[4, 1]), [0, 1]);
}

#[test]
fn views_have_pytorchs_strides() {
    let strides_of = |sizes: &[i64], strides: &[i64], to: &[i64]| strides::view(sizes, strides, to).unwrap().to_vec();
    assert_eq!(strides_of(&[1], &[5], &[1, 1]), [5, 5]);
    assert_eq!(strides_of(&[0, 3], &[1, 7], &[0, 3]), [1, 7]);
    assert_eq!(strides_of(&[0, 3], &[1, 7], &[5, 0, 2]), [2, 2, 1]);
    assert_eq!(strides_of(&[2, 1, 3], &[3, 77, 1], &[2, 3, 1]), [3, 1, 1]);
    assert_eq!(strides_of(&[], &[], &[1, 1]), [1, 1]);
}

/// Rows: sizes, strides, a new shape, the strides of that view or null, then `is_contiguous()`,
/// `is_non_overlapping_and_dense`, `is_contiguous(channels_last)`, `is_strides_like_format(channels_last)` and the
/// strides of `empty_like`, all as PyTorch gave them.
#[test]
fn recorded_tensors_are_pytorchs() {
    let rows: Vec<serde_json::Value> = serde_json::from_str(include_str!("data/strides.json")).unwrap();
    let list = |value: &serde_json::Value| serde_json::from_value::<Option<Vec<i64>>>(value.clone()).unwrap();
    assert!(rows.len() >= 100);
    for row in &rows {
        let [sizes, strides, new, view] = [0, 1, 2, 3].map(|i| list(&row[i]));
        let (sizes, strides) = (sizes.unwrap(), strides.unwrap());
        let format = if sizes.len() == 5 { MemoryFormat::ChannelsLast3d } else { MemoryFormat::ChannelsLast };
        assert_eq!(strides::view(&sizes, &strides, &new.unwrap()).map(|dims| dims.to_vec()), view, "{row}");
        let flags = [
            strides::is_contiguous(&sizes, &strides),
            strides::is_non_overlapping_and_dense(&sizes, &strides),
            strides::is_channels_last(&sizes, &strides, format),
            strides::is_channels_last_like(&sizes, &strides, format),
        ];
        assert_eq!(flags, [4, 5, 6, 7].map(|i| row[i] == 1), "{row}");
        assert_eq!(Some(strides::dense_like(&sizes, &strides).to_vec()), list(&row[8]), "{row}");
    }
}
