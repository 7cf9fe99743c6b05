//! Gradients that stop at copies of other ranks' embeddings (SANCUS, section 5: `stale_grad =
//! stop`).

use crate::check::Case;
use crate::skip::{case, trainer};

/// GCN, GraphSAGE, GAT, GIN, GCNII and APPNP with as few kinks as possible, and the allowed
/// distance between a difference and a slope. Scores of attention and layers of GIN have kinks
/// inside; without copies, differences are just as far off.
const SMOOTH: [(&str, f64); 6] = [
    (
        "let h = x |> dropout(0.2) |> gcn_conv(8) |> tanh |> dropout(0.2)
     loss cross_entropy(h |> gcn_conv(classes), labels, on = train)",
        0.002,
    ),
    (
        "let h = x |> sage_conv(8) |> tanh |> dropout(0.2)
     loss cross_entropy(h |> sage_conv(classes), labels, on = train)",
        0.002,
    ),
    (
        "let h = x |> gat_conv(4, heads = 2) |> tanh |> dropout(0.2)
     loss cross_entropy(h |> gat_conv(classes), labels, on = train)",
        0.04,
    ),
    (
        "let h = x |> gin_conv(8) |> tanh |> dropout(0.2) |> gin_conv(8) |> tanh
     loss cross_entropy(linear(h, classes), labels, on = train)",
        0.02,
    ),
    (
        "let h0 = x |> linear(8) |> tanh
     let h = h0
     repeat i in 1..=4 {
       h = h |> dropout(0.2) |> gcnii_conv(h0, alpha = 0.1, beta = 0.5 / i) |> tanh
     }
     loss cross_entropy(linear(h, classes), labels, on = train)",
        0.002,
    ),
    (
        "let u = x |> linear(8) |> tanh |> dropout(0.2) |> linear(classes)
     let z = u
     repeat k in 1..=5 {
       z = z |> appnp_step(u, alpha = 0.1, dropout = 0.2)
     }
     loss cross_entropy(z, labels, on = train)",
        0.002,
    ),
];

/// Step of the parameters; a smaller one would drown in the rounding of 32-bit losses.
const STEP: f64 = 0.002;

/// Elements of all parameters, tensor by tensor.
type Elements = Vec<Vec<f32>>;

/// The loss of the second epoch and the parameters after it, with copies from the first epoch.
/// The second epoch starts from other parameters than the first: `moved` applied to them.
fn second_epoch(case: &Case, rule: &str, moved: &dyn Fn(&mut Elements)) -> (f64, [Elements; 2]) {
    let mut trainer = trainer(case, Some(rule), 3);
    trainer.session.set_learning_rate(0.0);
    trainer.epoch().unwrap();
    let mut tensors = trainer.session.parameters().unwrap();
    // Start values leave biases at 0.
    let mut elements: Elements = tensors.iter().map(|t| t.values.clone()).collect();
    for (n, x) in elements.iter_mut().flatten().enumerate() {
        *x += 0.1 * (n as f32 * 0.7).sin();
    }
    moved(&mut elements);
    for (tensor, elements) in tensors.iter_mut().zip(&elements) {
        tensor.values.clone_from(elements);
    }
    trainer.session.set_parameters(&tensors).unwrap();
    trainer.session.set_learning_rate(1.0);
    let loss = trainer.epoch().unwrap().loss;
    let after = trainer.session.parameters().unwrap();
    let after = after.into_iter().map(|t| t.values).collect();
    (loss, [elements, after])
}

/// For each parameter, the slope of the loss along its gradient with copies held constant, and
/// the slope according to the gradient.
fn slopes(case: &Case, rule: &str) -> Vec<(f64, f64)> {
    let (_, [before, after]) = second_epoch(case, rule, &|_| ());
    // A step of 1 with a weight decay of 0.01.
    let gradient = before.iter().zip(&after).map(|(before, after)| {
        let of = |(b, a): (&f32, &f32)| f64::from(*b) * 0.99 - f64::from(*a);
        before.iter().zip(after).map(of).collect::<Vec<f64>>()
    });
    let one = |(n, gradient): (usize, Vec<f64>)| {
        let length = gradient.iter().map(|g| g * g).sum::<f64>().sqrt();
        let loss = |step: f64| {
            let (loss, _) = second_epoch(case, rule, &|elements| {
                for (x, g) in elements[n].iter_mut().zip(&gradient) {
                    *x += (step * g / length) as f32;
                }
            });
            loss
        };
        ((loss(STEP) - loss(-STEP)) / (2.0 * STEP), length)
    };
    gradient.enumerate().map(one).collect()
}

/// Gradients that stop at copies are those of the loss with copies held constant; others are
/// not.
#[test]
fn gradients_that_stop_at_copies_are_those_of_the_loss() {
    for (body, share) in SMOOTH {
        let case = case(body, false);
        for rule in ["fixed:3/stop", "adaptive:2/stop", "adaptive:2/cut/stop"] {
            for (n, (slope, length)) in slopes(&case, rule).into_iter().enumerate() {
                assert!(
                    (slope - length).abs() < share * length + 5e-5,
                    "{rule}, parameter {n}: found a slope of {slope}, expected {length}: {body}"
                );
            }
        }
        let through = slopes(&case, "fixed:3");
        let far = |(slope, length): &(f64, f64)| (slope - length).abs() > 0.2 * length;
        assert!(through.iter().any(far), "{through:?}: {body}");
    }
}

/// With features stored as non-zeros, copies of their products are kept.
#[test]
fn gradients_stop_at_copies_of_products_too() {
    let case = case(SMOOTH[0].0, true);
    for (n, (slope, length)) in slopes(&case, "fixed:3/stop").into_iter().enumerate() {
        assert!(
            (slope - length).abs() < 0.002 * length + 5e-5,
            "{n}: {slope}, {length}"
        );
    }
}
