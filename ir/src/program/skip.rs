//! Exchanges in which ranks may skip sending while copies of their rows are fresh enough
//! (SANCUS, section 3.3). The rows of a rank are a *block*; epochs count from 0.

use super::Ref;
use super::skipping::wrong;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// When a rank sends its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Rule {
    /// All ranks in the same epochs, when copies would otherwise be older than this many
    /// epochs.
    Fixed(u32),
    /// As `Fixed`, with the ranks' turns spread over the epochs.
    Adaptive(u32),
    /// When the block is farther than a relative distance from what was sent last, or (with an age) when
    /// copies would otherwise be older than that.
    Gap(Length, Option<u32>),
}

/// A length in a setting.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Length(pub f32);

/// Relative distance of a block from what was sent last, from the sums of squares of the difference and of the block
/// (Frobenius norms); 0 if the block equals what was sent.
pub fn relative_distance(difference: f64, block: f64) -> f64 {
    match difference > 0.0 {
        true => (difference / block).sqrt(),
        false => 0.0,
    }
}

impl Eq for Length {}

impl Ord for Length {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Length {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A skippable exchange.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Skip {
    /// When ranks send.
    pub rule: Rule,
    /// Where the newest copies are kept. Has the columns of the exchanged buffer, one slot per
    /// iteration of the enclosing loop, and halo rows; also own rows if the rule compares with
    /// what was sent last.
    pub copies: Ref,
}

/// The way back for gradients of rows that may be copies: only gradients of blocks that were
/// sent return to the owners.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Returned {
    /// The exchange of the rows, in the same iteration of the loop.
    pub of: Skip,
    /// Where gradients of rows of skipped blocks are kept, in halo rows; all other rows are 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<Ref>,
}

impl Default for Rule {
    /// Copies of at most one epoch, with turns spread.
    fn default() -> Self {
        Self::Adaptive(1)
    }
}

impl Rule {
    /// Whether a rank sends its block in epoch `epoch`, counted from the first one with copies;
    /// `None` if values decide. A closed form of [`Rule::too_old`] on clocks.
    pub fn decided(self, epoch: u64, block: u32) -> Option<bool> {
        match self {
            Self::Fixed(age) => Some(epoch.is_multiple_of(u64::from(age) + 1)),
            Self::Adaptive(_) => Some(epoch == 0 || self.turn(epoch, block)),
            Self::Gap(..) if epoch == 0 => Some(true),
            Self::Gap(..) => None,
        }
    }

    /// Whether a block must be sent again because of its age. The block was sent `age` epochs
    /// ago (`None` if never); `epoch` counts from the first one with copies.
    pub fn too_old(self, epoch: u64, block: u32, age: Option<u64>) -> bool {
        let (Some(age), Some(oldest)) = (age, self.oldest()) else {
            return age.is_none();
        };
        // The first turns set the spread.
        let early = matches!(self, Self::Adaptive(_)) && epoch <= oldest;
        age > oldest || early && self.turn(epoch, block)
    }

    /// Whether it is the block's turn, if turns are spread.
    fn turn(self, epoch: u64, block: u32) -> bool {
        let period = self.period();
        u64::from(block) % period == epoch % period
    }

    /// Largest age of copies; `None` if unbounded.
    pub fn oldest(self) -> Option<u64> {
        match self {
            Self::Fixed(age) | Self::Adaptive(age) => Some(age.into()),
            Self::Gap(_, age) => age.map(u64::from),
        }
    }

    /// Largest distance of copies; `None` if the rule ignores it.
    pub fn limit(self) -> Option<f64> {
        match self {
            Self::Gap(most, _) => Some(most.0.into()),
            Self::Fixed(_) | Self::Adaptive(_) => None,
        }
    }

    /// Mean number of epochs between sends of a block; 1 if values decide, because nobody knows
    /// in advance.
    pub fn period(self) -> u64 {
        match self {
            Self::Fixed(age) | Self::Adaptive(age) => u64::from(age) + 1,
            Self::Gap(..) => 1,
        }
    }

    /// Floats with which a rank tells every other rank its decision.
    pub fn flags(self) -> u64 {
        u64::from(self.limit().is_some())
    }

    /// A warning about a legal but doubtful rule.
    pub fn warning(self) -> Option<String> {
        let limit = self.limit().filter(|limit| *limit >= 1.0)?;
        Some(format!(
            "the rule {self} reads copies at a relative distance of up to {limit} from the current rows, which makes \
             them meaningless; published values are 0.01 to 0.03"
        ))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(age) => write!(f, "fixed:{age}"),
            Self::Adaptive(age) => write!(f, "adaptive:{age}"),
            Self::Gap(most, age) => {
                write!(f, "gap:{}", most.0)?;
                age.map_or(Ok(()), |age| write!(f, ":{age}"))
            }
        }
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || wrong(text);
        let age = |text: &str| text.parse::<u32>().map_err(|_| wrong());
        let parts: Vec<&str> = text.split(':').collect();
        match parts[..] {
            ["fixed", epochs] => Ok(Self::Fixed(age(epochs)?)),
            ["adaptive", epochs] => Ok(Self::Adaptive(age(epochs)?)),
            ["gap", distance] | ["gap", distance, _] => {
                let most = distance.parse().ok();
                let most = most.filter(|most: &f32| most.is_finite() && *most >= 0.0);
                let most = Length(most.ok_or_else(wrong)?);
                let oldest = parts.get(2).map(|epochs| age(epochs)).transpose()?;
                match oldest {
                    Some(0) => Err(wrong()),
                    _ => Ok(Self::Gap(most, oldest)),
                }
            }
            _ => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Rule {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions by clocks, epoch by epoch: `B` for a block that is sent, else the age of the
    /// copies read.
    fn turns(rule: Rule, blocks: u32, epochs: u64) -> Vec<String> {
        let mut sent: Vec<Option<u64>> = vec![None; blocks as usize];
        let one = |epoch: u64, sent: &mut Vec<Option<u64>>| {
            let texts = sent.iter_mut().zip(0..).map(|(sent, block)| {
                let age = sent.map(|sent| epoch - sent);
                let active = rule.too_old(epoch, block, age);
                assert_eq!(
                    rule.decided(epoch, block),
                    Some(active),
                    "{rule} {epoch} {block}"
                );
                if active {
                    *sent = Some(epoch);
                    return "B".to_owned();
                }
                let age = age.unwrap();
                assert!(Some(age) <= rule.oldest());
                age.to_string()
            });
            texts.collect::<Vec<_>>().join(" ")
        };
        (0..epochs).map(|epoch| one(epoch, &mut sent)).collect()
    }

    #[test]
    fn turns_are_those_of_the_specification() {
        let all = ["B B B B", "1 1 1 1", "B B B B", "1 1 1 1"];
        assert_eq!(turns(Rule::Fixed(1), 4, 4), all);
        let two = ["B B", "1 1", "2 2", "B B", "1 1", "2 2", "B B"];
        assert_eq!(turns(Rule::Fixed(2), 2, 7), two);
        let spread = ["B B B B", "1 B 1 B", "B 1 B 1", "1 B 1 B"];
        assert_eq!(turns(Rule::Adaptive(1), 4, 4), spread);
        for rule in [Rule::Fixed(0), Rule::Adaptive(0)] {
            assert_eq!(turns(rule, 3, 5), ["B B B"; 5], "{rule}");
        }
        for age in 0..6 {
            turns(Rule::Adaptive(age), 7, 40);
            turns(Rule::Fixed(age), 7, 40);
        }
    }

    /// Rule `Fixed` sends in `ceil(epochs / (age + 1)) / epochs` of all rounds; with
    /// `Adaptive`, each block's turn comes once per period.
    #[test]
    fn shares_are_what_the_closed_form_says() {
        for age in 0..5u32 {
            let period = u64::from(age) + 1;
            for epochs in 1..30u64 {
                let rounds = (0..epochs).filter(|e| Rule::Fixed(age).decided(*e, 3) == Some(true));
                assert_eq!(rounds.count() as u64, epochs.div_ceil(period));
            }
            for block in 0..7 {
                let turns = |e: &u64| Rule::Adaptive(age).decided(*e, block) == Some(true);
                assert_eq!((period..11 * period).filter(turns).count(), 10);
            }
        }
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        let known = ["fixed:0", "adaptive:3", "gap:0.01", "gap:0.5:8", "gap:0"];
        for text in known {
            let rule: Rule = text.parse().unwrap();
            assert_eq!(rule.to_string(), text);
            let json = serde_json::to_string(&rule).unwrap();
            assert_eq!(json, format!("\"{text}\""));
            assert_eq!(serde_json::from_str::<Rule>(&json).unwrap(), rule);
        }
        for wrong in [
            "",
            "fixed",
            "fixed:-1",
            "fixed:1.5",
            "adaptive:x",
            "often:1",
            "gap",
            "gap:-0.1",
            "gap:nan",
            "gap:inf",
            "gap:0.1:0",
            "gap:0.1:2.5",
            "gap:0.1:2:3",
            "gap-absolute:1",
            "fixed:1:2",
        ] {
            let error = wrong.parse::<Rule>().unwrap_err();
            assert!(
                error.contains("adaptive:EPOCHS") && error.contains(wrong),
                "{error}"
            );
        }
        let far: Rule = "gap:1".parse().unwrap();
        assert!(far.warning().unwrap().contains("published values are"));
        assert_eq!("gap:0.99".parse::<Rule>().unwrap().warning(), None);
        assert_eq!(Rule::default().to_string(), "adaptive:1");
    }

    #[test]
    fn distances_are_relative() {
        assert_eq!(relative_distance(36.0, 9.0), 2.0);
        assert_eq!(relative_distance(0.0, 0.0), 0.0);
    }
}
