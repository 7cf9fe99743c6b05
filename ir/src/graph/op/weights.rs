//! Weights of classes in a loss.

use crate::words::number::Number;

/// How a loss weighs the classes of vertices.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ClassWeights {
    /// All alike.
    Equal,
    /// By `n / (k c)`, if `c` of the `n` training vertices have the class, and `k` classes have training
    /// vertices at all; other classes by 0.
    Balanced,
    /// By a number for each class, at least 0.
    Given(Vec<Number>),
}

impl ClassWeights {
    /// The weight of each class, from the numbers of training vertices of the classes; `None` if all are 1.
    pub fn of_classes(&self, counts: &[u64]) -> Option<Vec<f64>> {
        match self {
            Self::Equal => None,
            Self::Balanced => {
                let all: u64 = counts.iter().sum();
                let there = counts.iter().filter(|count| **count > 0).count();
                let weight = |count: &u64| match count {
                    0 => 0.0,
                    count => all as f64 / (there as f64 * *count as f64),
                };
                Some(counts.iter().map(weight).collect())
            }
            Self::Given(weights) => Some(weights.iter().map(|weight| weight.0).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `sklearn.utils.class_weight.compute_class_weight("balanced", ..)` of six, three and one label gives
    /// 10 / 18, 10 / 9 and 10 / 3.
    #[test]
    fn balanced_weights_are_those_of_scikit_learn() {
        let weights = ClassWeights::Balanced.of_classes(&[6, 0, 3, 1]).unwrap();
        let expected = [10.0 / 18.0, 0.0, 10.0 / 9.0, 10.0 / 3.0];
        assert_eq!(weights, expected);
        assert_eq!(
            ClassWeights::Balanced.of_classes(&[0, 0]).unwrap(),
            [0.0; 2]
        );
        assert_eq!(ClassWeights::Equal.of_classes(&[6, 0, 3, 1]), None);
    }
}
