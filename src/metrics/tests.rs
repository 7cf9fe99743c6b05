//! Scores compared with values computed by hand and by scikit-learn.

use super::*;

/// Logits of two classes whose difference is the score.
fn two(scores: &[f32]) -> Vec<f32> {
    scores.iter().flat_map(|s| [0.0, *s]).collect()
}

fn near(found: Option<f64>, want: f64) {
    let found = found.unwrap();
    assert!((found - want).abs() < 1e-12, "{found}, not {want}");
}

#[test]
fn two_classes_with_ties_by_hand() {
    let logits = two(&[0.1, 0.4, 0.4, 0.8]);
    let labels = Labels::Single(vec![0, 0, 1, 1]);
    let scored = Scored {
        logits: &logits,
        rivals: &[0; 4096],
        classes: 2,
        labels: &labels,
        kind: LabelKind::Class,
    };
    // Of four pairs, three are in order and one is tied.
    near(scored.score(Metric::RocAuc, 0..4), 3.5 / 4.0);
    // Precision 1 for half of the recall, then 2 of 3.
    near(
        scored.score(Metric::AveragePrecision, 0..4),
        0.5 + 0.5 * 2.0 / 3.0,
    );
    // All are said to be of class 1.
    near(scored.score(Metric::Accuracy, 0..4), 0.5);
    near(scored.score(Metric::MicroF1, 0..4), 0.5);
    near(
        scored.score(Metric::MacroF1, 0..4),
        (0.0 + 2.0 * 2.0 / 6.0) / 2.0,
    );
    // One class alone has no area, no vertices have no score.
    assert_eq!(scored.score(Metric::RocAuc, 0..2), None);
    assert_eq!(scored.score(Metric::AveragePrecision, 0..2), None);
    near(scored.score(Metric::AveragePrecision, 2..4), 1.0);
    for metric in Metric::ALL {
        assert_eq!(scored.score(metric, 0..0), None);
        assert_eq!(metric.key().parse(), Ok(metric));
    }
}

#[test]
fn vertices_without_a_label_do_not_count() {
    let logits = two(&[1.0, -1.0, 2.0, 5.0]);
    let labels = Labels::Single(vec![1, 0, 0, -1]);
    let scored = Scored {
        logits: &logits,
        rivals: &[0; 4096],
        classes: 2,
        labels: &labels,
        kind: LabelKind::Class,
    };
    near(scored.score(Metric::Accuracy, 0..4), 2.0 / 3.0);
    near(scored.score(Metric::RocAuc, 0..4), 0.5);
    assert_eq!(scored.score(Metric::MacroF1, 3..4), None);
}

/// Numbers that look random, the same in every language.
fn draws(count: usize, seed: u64) -> Vec<u64> {
    let next = |x: &mut u64| {
        *x = (*x * 1_103_515_245 + 12_345) % (1 << 31);
        Some(*x >> 16)
    };
    std::iter::repeat_n((), count)
        .scan(seed, |x, ()| next(x))
        .collect()
}

/// The values are those of scikit-learn 1.9.1 on the same numbers: `accuracy_score`, `f1_score`, `roc_auc_score`
/// (`multi_class="ovr"` on softmax for one class a vertex) and `average_precision_score`, all with
/// `average="macro"` where they average.
#[test]
fn several_classes_are_scored_as_scikit_learn_does() {
    let (vertices, classes) = (60, 4);
    let logit = |v: &u64| (v % 41) as f32 / 8.0 - 2.5;
    let logits: Vec<f32> = draws(vertices * classes, 1).iter().map(logit).collect();
    let single = draws(vertices, 7).iter().map(|v| (v % 4) as i32).collect();
    let several = draws(vertices * classes, 9)
        .iter()
        .map(|v| f32::from(v % 3 == 0))
        .collect();
    let several = Labels::Values {
        width: 4,
        values: several,
    };
    let scored = |labels: &Labels, metric| {
        let kind = match labels {
            Labels::Values { .. } => LabelKind::Several,
            Labels::None | Labels::Single(_) => LabelKind::Class,
        };
        let scored = Scored {
            logits: &logits,
            rivals: &[0; 4096],
            classes,
            labels,
            kind,
        };
        scored.score(metric, 0..vertices)
    };
    let single = Labels::Single(single);
    near(scored(&single, Metric::Accuracy), 0.26666666666666666);
    near(scored(&single, Metric::MicroF1), 0.26666666666666666);
    near(scored(&single, Metric::MacroF1), 0.2394742612795351);
    near(scored(&single, Metric::RocAuc), 0.533671231919485);
    near(
        scored(&single, Metric::AveragePrecision),
        0.31617315540390567,
    );
    near(scored(&several, Metric::MicroF1), 0.4);
    near(scored(&several, Metric::MacroF1), 0.3975653975653975);
    near(scored(&several, Metric::RocAuc), 0.509456988937495);
    near(
        scored(&several, Metric::AveragePrecision),
        0.42012205342732356,
    );
}

/// The values are those of scikit-learn 1.9.1: `mean_absolute_error`, `root_mean_squared_error` and `r2_score`.
#[test]
fn numbers_are_scored_as_scikit_learn_does() {
    let labels = Labels::Values {
        width: 2,
        values: vec![0.5, 1.0, -1.0, 1.0, 7.0, -6.0, f32::NAN, f32::NAN],
    };
    let logits = [0.0, 2.0, -1.0, 2.0, 8.0, -5.0, 3.0, 3.0];
    let scored = Scored {
        logits: &logits,
        rivals: &[0; 4096],
        classes: 2,
        labels: &labels,
        kind: LabelKind::Numbers,
    };
    near(scored.score(Metric::Mae, 0..4), 0.75);
    near(scored.score(Metric::Rmse, 0..4), 0.8227486121839513);
    near(scored.score(Metric::R2, 0..4), 0.9368005266622779);
    assert_eq!(scored.score(Metric::R2, 0..1), None);
    assert_eq!(scored.score(Metric::Mae, 3..4), None);
    assert!(Metric::Rmse.is_better(0.1, 0.2) && Metric::R2.is_better(0.2, 0.1));
}

/// Two sources with three pairs each: links 1 and 4, of scores that are tied or not.
#[test]
fn links_are_ranked_among_pairs_of_their_source() {
    let labels = Labels::Values {
        width: 1,
        values: vec![0.0, 1.0, 0.0, 0.0, 1.0, 0.0, f32::NAN],
    };
    let logits = [0.9, 0.5, 0.5, 0.1, 0.7, 0.2, 5.0];
    let scored = Scored {
        logits: &logits,
        rivals: &[3, 3, 3, 8, 8, 8, 8],
        classes: 1,
        labels: &labels,
        kind: LabelKind::Several,
    };
    // One is above and one is equal: rank 2.5. The other is first.
    near(scored.score(Metric::Mrr, 0..7), (1.0 / 2.5 + 1.0) / 2.0);
    assert_eq!(scored.score(Metric::Hits10, 0..7), None);
    assert_eq!(scored.score(Metric::Mrr, 4..5), None);
    assert!(fits(Metric::Mrr, LabelKind::Class).is_err());
    let answers = |n: usize| (0..n).map(|k| (k as f64, k % 4 == 3)).collect::<Vec<_>>();
    // Pairs without a link: 15 of 20; the 10th best is 6, above which are 7, 11, 15 and 19.
    near(super::hits(&answers(20), 10), 4.0 / 5.0);
}

#[test]
fn labels_that_are_unknown_do_not_count() {
    const GAP: f32 = f32::NAN;
    let logits = [2.0f32, -1.0, 1.0, 0.5, -2.0, 3.0];
    let labels = Labels::Values {
        width: 2,
        values: vec![1.0, GAP, 0.0, 1.0, 0.0, GAP],
    };
    let scored = |kind| Scored {
        logits: &logits,
        rivals: &[0; 4096],
        classes: 2,
        labels: &labels,
        kind,
    };
    let several = scored(LabelKind::Several);
    // The second column has a single label, so only the first has an area.
    near(several.score(Metric::RocAuc, 0..3), 1.0);
    // Twice two of four that are predicted or labeled, and one mistake.
    near(several.score(Metric::MicroF1, 0..3), 4.0 / 5.0);
    near(
        several.score(Metric::MacroF1, 0..3),
        (2.0 / 3.0 + 1.0) / 2.0,
    );
    near(several.score(Metric::Accuracy, 0..3), 2.0 / 3.0);
    let numbers = scored(LabelKind::Numbers);
    near(
        numbers.score(Metric::Mae, 0..3),
        (1.0 + 1.0 + 2.0 + 0.5) / 4.0,
    );
    near(numbers.score(Metric::Rmse, 0..1), 1.0);
}
