//! Losses against formulas and differences.

use super::*;
use gnnc_ir::graph::op::ClassWeights;
use gnnc_ir::words::number::Number;

#[test]
fn exp_is_accurate() {
    for i in 0..=870_000 {
        let x = -(i as f32) / 10_000.0;
        let want = f64::from(x).exp();
        assert!((f64::from(exp(x)) / want - 1.0).abs() < 2e-7, "{x}");
    }
    assert_eq!(exp(0.0), 1.0);
    assert!(exp(f32::NAN).is_nan());
    assert!(exp(-1e30) < 1e-37);
}

#[test]
fn cross_entropy_of_g8() {
    // Logits are the first two columns of X; vertices 0 (class 0) and 7 (class 1) train.
    let x = |v: i32| [0, 1].map(|j| ((3 * v + 5 * j) % 7) as f32 - 3.0);
    let even = Weights::default();
    let of = |v: i32, label| cross_entropy(&x(v), Target::new(label, 0.0, 2, &even), 0.5, None);
    let loss = (of(0, 0) + of(7, 1)) / 2.0;
    assert!((loss - 2.5067).abs() < 5e-5, "{loss}");
}

#[test]
fn losses_are_stable_and_match_their_formula() {
    let even = Weights::default();
    let mut grad = [0.0; 3];
    let loss = cross_entropy(
        &[1000.0, 0.0, -1000.0],
        Target::new(1, 0.0, 3, &even),
        2.0,
        Some(&mut grad),
    );
    assert_eq!(
        (loss, grad),
        (
            1000.0,
            [2.0, -2.0, 0.0].map(|g: f32| if g == 0.0 { grad[2] } else { g })
        )
    );
    assert!(grad[2].abs() < 1e-30);
    let (z, y) = ([-3.0f32, 0.25, 90.0], [1.0f32, 0.0, 0.5]);
    let want: f64 = z
        .iter()
        .zip(&y)
        .map(|(&z, &y)| {
            let p = 1.0 / (1.0 + (-f64::from(z)).exp());
            let q = (-f64::from(z)).exp() / (1.0 + (-f64::from(z)).exp());
            -f64::from(y) * p.ln() - (1.0 - f64::from(y)) * q.ln()
        })
        .sum();
    let got = binary_cross_entropy(&z, &y, 1.0, Some(&mut grad));
    assert!((got - want).abs() < 1e-6 * want, "{got} {want}");
}

#[test]
fn derivatives_are_differences() {
    let z = [0.3f32, -1.2, 2.0, 0.9];
    let y = [0.0f32, 1.0, 0.25, 1.0];
    type OneLoss<'a> = &'a dyn Fn(&[f32], Option<&mut [f32]>) -> f64;
    let narrow = Loss::Huber { delta: Number(0.2) };
    let even = Weights::default();
    let given = given(&[0.5, 2.0, 3.0, 0.25]);
    let losses: [OneLoss; 9] = [
        &|z, g| cross_entropy(z, Target::new(2, 0.1, 4, &given), 1.0, g),
        &|z, g| weighed_binary(z, &y, &given, 1.0, g),
        &|z, g| cross_entropy(z, Target::new(2, 0.0, 4, &even), 1.0, g),
        &|z, g| cross_entropy(z, Target::new(2, 0.1, 4, &even), 1.0, g),
        &|z, g| binary_cross_entropy(z, &y, 1.0, g),
        &|z, g| of_numbers(&Loss::SquaredError, z, &y, 1.0, g),
        &|z, g| of_numbers(&Loss::AbsoluteError, z, &y, 1.0, g),
        &|z, g| of_numbers(&Loss::HUBER, z, &y, 1.0, g),
        &|z, g| of_numbers(&narrow, z, &y, 1.0, g),
    ];
    for loss in losses {
        let mut grad = [0.0; 4];
        loss(&z, Some(&mut grad));
        for c in 0..4 {
            let at = |step: f32| {
                let mut moved = z;
                moved[c] += step;
                loss(&moved, None)
            };
            let step = 0.0625;
            let slope = (at(step) - at(-step)) / f64::from(2.0 * step);
            assert!(
                (slope - f64::from(grad[c])).abs() < 2e-4,
                "{c}: {slope} {}",
                grad[c]
            );
        }
    }
}

#[test]
fn ties_go_to_the_lower_class_and_f1_counts_both_mistakes() {
    assert_eq!(argmax(&[1.0, 3.0, 3.0]), 1);
    assert_eq!(argmax(&[f32::NAN, f32::NAN]), 0);
    assert_eq!(
        micro_f1(&[1.0, -1.0, 2.0, 0.0], &[1.0, 1.0, 0.0, 0.0]),
        Hits {
            correct: 2.0,
            of: 4.0
        }
    );
}

fn given(each: &[f32]) -> Weights {
    Weights {
        each: each.to_vec(),
        of_classes: each.iter().copied().map(f64::from).sum(),
        trained: 1.0,
        has_gaps: false,
    }
}

/// The loss of a vertex and its gradient.
fn of_one(loss: &Loss, labels: &Labels, weights: &Weights, z: &[f32]) -> (f64, Vec<f32>) {
    let mut grad = vec![0.0; z.len()];
    let value = of_vertex(loss, labels, weights, 0, z, 1.0, Some(&mut grad));
    (value, grad)
}

fn near(found: &[f32], expected: &[f64]) -> bool {
    let pairs = found.iter().zip(expected);
    found.len() == expected.len()
        && pairs
            .into_iter()
            .all(|(a, b)| (f64::from(*a) - b).abs() < 1e-5)
}

/// `torch.nn.HuberLoss(delta = 0.5)` of errors of 0.25, -0.5 and 2: 0.25^2 / 2, 0.5 (0.5 - 0.25) and
/// 0.5 (2 - 0.25).
#[test]
fn huber_has_the_threshold_of_pytorch() {
    let loss = Loss::Huber { delta: Number(0.5) };
    let labels = Labels::Values {
        width: 3,
        values: vec![1.0, 2.0, 3.0],
    };
    let (value, grad) = of_one(&loss, &labels, &Weights::default(), &[1.25, 1.5, 5.0]);
    assert_eq!(value, 0.03125 + 0.125 + 0.875);
    assert!(near(&grad, &[0.25, -0.5, 0.5]), "{grad:?}");
}

fn smoothed(smoothing: f64) -> Loss {
    Loss::CrossEntropy {
        smoothing: Number(smoothing),
        weights: ClassWeights::Equal,
    }
}

/// `torch.nn.CrossEntropyLoss(label_smoothing = 0.3)` of the logits ln 1, ln 2, ln 5 and the class 1: the
/// probabilities 1/8, 2/8 and 5/8 against the distribution 0.1, 0.8 and 0.1.
#[test]
fn smoothing_is_that_of_pytorch() {
    let loss = smoothed(0.3);
    let z = [1.0f32, 2.0, 5.0].map(f32::ln);
    let (value, grad) = of_one(&loss, &Labels::Single(vec![1]), &Weights::default(), &z);
    let expected = -(0.1 * 0.125f64.ln() + 0.8 * 0.25f64.ln() + 0.1 * 0.625f64.ln());
    assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    assert!((value - 1.363_98).abs() < 1e-6, "{value}");
    assert!(near(&grad, &[0.025, -0.55, 0.525]), "{grad:?}");
}

/// `torch.nn.CrossEntropyLoss(weight = [0.3, 1, 2.5], label_smoothing = s, reduction = "sum")` of the same logits, whose
/// terms are -log(1/8), -log(2/8) and -log(5/8); the weight of the vertex is that of its class.
#[test]
fn weights_of_classes_are_those_of_pytorch() {
    let weights = given(&[0.3, 1.0, 2.5]);
    let labels = Labels::Single(vec![2]);
    let z = [1.0f32, 2.0, 5.0].map(f32::ln);
    let terms = [0.125f64, 0.25, 0.625].map(|p| -p.ln());
    let (value, grad) = of_one(&smoothed(0.0), &labels, &weights, &z);
    assert!((value - 2.5 * terms[2]).abs() < 1e-6, "{value}");
    assert!(
        near(&grad, &[2.5 * 0.125, 2.5 * 0.25, 2.5 * (0.625 - 1.0)]),
        "{grad:?}"
    );
    let (value, grad) = of_one(&smoothed(0.3), &labels, &weights, &z);
    let shares = [0.1 * 0.3, 0.1 * 1.0, 0.8 * 2.5];
    let expected: f64 = shares
        .iter()
        .zip(terms)
        .map(|(share, term)| share * term)
        .sum();
    assert!((value - expected).abs() < 1e-6, "{value} {expected}");
    let all: f64 = shares.iter().sum();
    let slopes = [0.125, 0.25, 0.625].map(|p| all * p);
    let slopes = [
        slopes[0] - shares[0],
        slopes[1] - shares[1],
        slopes[2] - shares[2],
    ];
    assert!(near(&grad, &slopes), "{grad:?}");
    assert_eq!(weights.of_vertex(&labels, 0), 2.5);
}

/// `torch.nn.BCEWithLogitsLoss(pos_weight = [4, 0.5], reduction = "sum")` of the logits ln 3 and -ln 3 with the labels
/// 1 and 0, then 0.25 and 0.75: probabilities of 3/4 and 1/4.
#[test]
fn weights_of_labels_are_those_of_pytorch() {
    let weights = given(&[4.0, 0.5]);
    let z = [3.0f32.ln(), -(3.0f32.ln())];
    let low = 0.75f64.ln();
    let of = |values: [f32; 2]| {
        let labels = Labels::Values {
            width: 2,
            values: values.to_vec(),
        };
        of_one(&Loss::BINARY_CROSS_ENTROPY, &labels, &weights, &z)
    };
    let (value, grad) = of([1.0, 0.0]);
    assert!((value - (-4.0 * low - low)).abs() < 1e-6, "{value}");
    assert!(near(&grad, &[4.0 * (0.75 - 1.0), 0.25]), "{grad:?}");
    let high = 0.25f64.ln();
    let first = -(4.0 * 0.25 * low + 0.75 * high);
    let second = -(0.5 * 0.75 * high + 0.25 * low);
    let (value, _) = of([0.25, 0.75]);
    assert!(
        (value - first - second).abs() < 1e-6,
        "{value} {first} {second}"
    );
}

/// Labels that are unknown add nothing: the loss and the gradient are those of the other columns.
#[test]
fn unknown_labels_are_left_out() {
    let z = [0.7f32, -1.2, 2.5, 0.1];
    let y = [1.0f32, f32::NAN, 0.25, f32::NAN];
    let row = |values: &[f32]| Labels::Values {
        width: values.len() as u32,
        values: values.to_vec(),
    };
    let losses = [
        Loss::BINARY_CROSS_ENTROPY,
        Loss::SquaredError,
        Loss::AbsoluteError,
        Loss::Huber { delta: Number(0.5) },
    ];
    for loss in losses {
        for weights in [Weights::default(), given(&[4.0, 3.0, 4.0, 2.0])] {
            let (value, grad) = of_one(&loss, &row(&y), &weights, &z);
            let (known, slopes) = of_one(
                &loss,
                &row(&[y[0], y[2]]),
                &weights_of(&weights),
                &[z[0], z[2]],
            );
            assert!((value - known).abs() < 1e-9, "{loss:?}: {value} {known}");
            assert_eq!(grad, [slopes[0], 0.0, slopes[1], 0.0], "{loss:?}");
        }
    }
    assert_eq!(
        micro_f1(&z, &y),
        Hits {
            correct: 2.0,
            of: 3.0
        }
    );
    let errors = absolute_error(&z, &y);
    assert!((errors.correct - 2.55).abs() < 1e-6 && errors.of == 2.0);
    let weights = Weights {
        has_gaps: true,
        ..Weights::default()
    };
    assert_eq!(weights.of_vertex(&row(&y), 0), 0.5);
}

/// The weights of the first and the third column.
fn weights_of(weights: &Weights) -> Weights {
    match weights.each[..] {
        [first, _, third, _] => given(&[first, third]),
        _ => Weights::default(),
    }
}
