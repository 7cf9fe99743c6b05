//! Text form of losses: a word, with numbers behind it that are not the usual ones, such as
//! `cross-entropy(smoothing 0.1)`. Files spell a loss the same way.

use super::TextError;
use super::lex::tokens;
use super::parse::Reader;
use super::words::Text;
use crate::graph::op::{ClassWeights, Loss};
use crate::words::number::Number;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

const EXPECTED: &str = "a loss, such as `cross-entropy`";

fn word(loss: &Loss) -> &'static str {
    match loss {
        Loss::CrossEntropy { .. } => "cross-entropy",
        Loss::BinaryCrossEntropy { .. } => "binary-cross-entropy",
        Loss::SquaredError => "squared-error",
        Loss::AbsoluteError => "absolute-error",
        Loss::Huber { .. } => "huber",
    }
}

/// The numbers that are not the usual ones, each behind its name.
fn numbers(loss: &Loss) -> Vec<String> {
    let unless = |name: &str, usual: Number, number: Number| {
        (number != usual).then(|| format!("{name} {:?}", number.0))
    };
    let list = |weights: &[Number]| {
        let weights = weights.iter().map(|weight| format!(" {:?}", weight.0));
        (weights.len() > 0).then(|| format!("weights{}", weights.collect::<String>()))
    };
    let found = match loss {
        Loss::CrossEntropy { smoothing, weights } => [
            unless("smoothing", Number::ZERO, *smoothing),
            match weights {
                ClassWeights::Equal => None,
                ClassWeights::Balanced => Some("balanced".to_owned()),
                ClassWeights::Given(weights) => list(weights),
            },
        ],
        Loss::BinaryCrossEntropy { positive } => [list(positive), None],
        Loss::Huber { delta } => [unless("delta", Number::ONE, *delta), None],
        Loss::SquaredError | Loss::AbsoluteError => [None, None],
    };
    found.into_iter().flatten().collect()
}

/// Reads the numbers of a loss that have one name.
fn number(loss: &mut Loss, from: &mut Reader<'_>) -> Result<(), TextError> {
    match loss {
        Loss::CrossEntropy { weights, .. } if from.skip("balanced") => {
            *weights = ClassWeights::Balanced;
        }
        Loss::CrossEntropy { weights, .. } if from.skip("weights") => {
            *weights = ClassWeights::Given(list(from)?);
        }
        Loss::CrossEntropy { smoothing, .. } => {
            from.expect("smoothing")?;
            *smoothing = Number(from.number()?);
        }
        Loss::BinaryCrossEntropy { positive } => {
            from.expect("weights")?;
            *positive = list(from)?;
        }
        Loss::Huber { delta } => {
            from.expect("delta")?;
            *delta = Number(from.number()?);
        }
        Loss::SquaredError | Loss::AbsoluteError => {
            return Err(from.wrong_before("a loss that has numbers"));
        }
    }
    Ok(())
}

/// Reads at least one number.
fn list(from: &mut Reader<'_>) -> Result<Vec<Number>, TextError> {
    let mut numbers = vec![Number(from.number()?)];
    while from.at_number() {
        numbers.push(Number(from.number()?));
    }
    Ok(numbers)
}

impl Text for Loss {
    fn print(&self, out: &mut String) {
        out.push_str(word(self));
        let numbers = numbers(self);
        if !numbers.is_empty() {
            *out += &format!("({})", numbers.join(", "));
        }
    }

    fn parse(from: &mut Reader<'_>) -> Result<Self, TextError> {
        let found = from.word(EXPECTED)?;
        let all = [
            Self::CROSS_ENTROPY,
            Self::BINARY_CROSS_ENTROPY,
            Self::SquaredError,
            Self::AbsoluteError,
            Self::HUBER,
        ];
        let named = all.into_iter().find(|loss| word(loss) == found);
        let mut loss = named.ok_or_else(|| from.wrong_before(EXPECTED))?;
        if from.skip("(") {
            number(&mut loss, from)?;
            while from.skip(",") {
                number(&mut loss, from)?;
            }
            from.expect(")")?;
        }
        Ok(loss)
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text())
    }
}

impl FromStr for Loss {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        Reader::of(tokens(text)?).whole()
    }
}

impl Serialize for Loss {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text())
    }
}

impl<'de> Deserialize<'de> for Loss {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_read_as_they_are_written() {
        for text in [
            "cross-entropy",
            "cross-entropy(smoothing 0.1)",
            "cross-entropy(balanced)",
            "cross-entropy(smoothing 0.1, weights 0.3 1.0 2.5)",
            "binary-cross-entropy",
            "binary-cross-entropy(weights 4.0)",
            "squared-error",
            "absolute-error",
            "huber",
            "huber(delta 0.25)",
        ] {
            let loss: Loss = text.parse().unwrap();
            assert_eq!(loss.to_string(), text);
            let json = serde_json::to_string(&loss).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Loss>(&json).unwrap(), loss);
        }
        for (text, expected) in [
            ("hinge", "a loss"),
            ("huber(smoothing 0.1)", "`delta`"),
            ("huber(delta)", "a number"),
            ("cross-entropy(weights)", "a number"),
            ("binary-cross-entropy(balanced)", "`weights`"),
            ("huber(delta 1", "`)`"),
            ("huber huber", "the end"),
            ("squared-error(delta 1)", "a loss that has numbers"),
        ] {
            let error = text.parse::<Loss>().unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
