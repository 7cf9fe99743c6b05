//! The rule by which SANCUS skips exchanges, with its endings, as users write it.

use super::skip::{Length, Rule};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How a placement skips exchanges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Skipping {
    /// When a rank sends its rows.
    pub rule: Rule,
    /// Whether a rank sends each reader only the rows that it has edges from (section 4: `rows
    /// = needed`), not all.
    pub cut: bool,
    /// Whether gradients of rows of skipped blocks are dropped (section 5: `stale_grad =
    /// stop`). The remaining gradients are those of the loss with copies held constant.
    pub stop: bool,
    /// Bound on the gradient of what an activation or the loss reads, over all ranks together
    /// (section 3.2, step 1 of the backward pass); `None` does not clip.
    pub clip: Option<Length>,
}

/// Ending: send only the rows of the cut.
const CUT: &str = "/cut";

/// Ending: drop gradients of copies.
const STOP: &str = "/stop";

/// Ending, followed by a length: clip gradients of embeddings.
const CLIP: &str = "/clip:";

/// Syntax of rules.
pub const RULES: &str = "fixed:EPOCHS, adaptive:EPOCHS, gap:DISTANCE or gap:DISTANCE:EPOCHS, such as \
                         adaptive:1 or gap:0.01 (EPOCHS is the largest age of copies, at least 0; \
                         DISTANCE is relative, at least 0); append /cut \
                         to send each reader only the rows it has edges from, then \
                         /stop to drop the gradients of rows that were not sent, then /clip:LENGTH to \
                         clip the gradients of embeddings (LENGTH is the norm over all ranks' rows, above 0)";

impl Skipping {
    /// Bound on the gradient of one rank's rows, the same on all ranks.
    pub fn most_of_block(self, ranks: u32) -> Option<f32> {
        let share = |Length(most)| f64::from(most) / f64::from(ranks).sqrt();
        self.clip.map(|most| share(most) as f32)
    }
}

impl From<Rule> for Skipping {
    fn from(rule: Rule) -> Self {
        Self {
            rule,
            cut: false,
            stop: false,
            clip: None,
        }
    }
}

impl fmt::Display for Skipping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rule.fmt(f)?;
        f.write_str(if self.cut { CUT } else { "" })?;
        f.write_str(if self.stop { STOP } else { "" })?;
        self.clip
            .map_or(Ok(()), |Length(most)| write!(f, "{CLIP}{most}"))
    }
}

impl FromStr for Skipping {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (rest, clip) = match text.split_once(CLIP) {
            Some((rest, most)) => (rest, Some(length(most).ok_or_else(|| wrong(text))?)),
            None => (text, None),
        };
        let (rest, stop) = ending(rest, STOP);
        let (rule, cut) = ending(rest, CUT);
        let rule = rule.parse()?;
        Ok(Self {
            rule,
            cut,
            stop,
            clip,
        })
    }
}

/// Error for a text that is not a rule.
pub(super) fn wrong(text: &str) -> String {
    format!("found the rule `{text}`, expected {RULES}")
}

/// Parses the bound on gradients.
fn length(text: &str) -> Option<Length> {
    let most: Option<f32> = text.parse().ok();
    most.filter(|most| most.is_finite() && *most > 0.0)
        .map(Length)
}

/// Strips an ending; also returns whether it was there.
fn ending<'a>(text: &'a str, ending: &str) -> (&'a str, bool) {
    let without = text.strip_suffix(ending);
    (without.unwrap_or(text), without.is_some())
}

impl TryFrom<String> for Skipping {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Skipping> for String {
    fn from(skipping: Skipping) -> Self {
        skipping.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_read_as_they_are_written() {
        for (text, cut, stop, clip) in [
            ("adaptive:1", false, false, None),
            ("gap:0.1:2/cut", true, false, None),
            ("fixed:1/stop", false, true, None),
            ("gap:0.1/cut/stop", true, true, None),
            ("fixed:1/clip:0.25", false, false, Some(Length(0.25))),
            ("gap:0.1/cut/stop/clip:3", true, true, Some(Length(3.0))),
        ] {
            let skipping: Skipping = text.parse().unwrap();
            let found = (skipping.cut, skipping.stop, skipping.clip);
            assert_eq!(found, (cut, stop, clip), "{text}");
            assert_eq!(skipping.to_string(), text);
            let json = serde_json::to_string(&skipping).unwrap();
            assert_eq!(serde_json::from_str::<Skipping>(&json).unwrap(), skipping);
        }
        for wrong in [
            "cut",
            "/cut",
            "/stop",
            "/clip:1",
            "fixed:1/all",
            "fixed:1/cut/cut",
            "fixed:1/stop/stop",
            "fixed:1/stop/cut",
            "fixed:1/clip",
            "fixed:1/clip:",
            "fixed:1/clip:0",
            "fixed:1/clip:-1",
            "fixed:1/clip:nan",
            "fixed:1/clip:inf",
            "fixed:1/clip:1e-99",
            "fixed:1/clip:1/stop",
            "fixed:1/clip:1/clip:1",
        ] {
            let error = wrong.parse::<Skipping>().unwrap_err();
            assert!(error.contains("/stop to drop the gradients"), "{error}");
            assert!(error.contains("LENGTH is the norm over all"), "{error}");
        }
    }

    /// The worked example: on 4 ranks, a bound of 1 halves blocks of length 1, and together
    /// they have length 1.
    #[test]
    fn bounds_of_blocks_add_up_to_the_whole_bound() {
        let of = |text: &str, ranks| text.parse::<Skipping>().unwrap().most_of_block(ranks);
        assert_eq!(of("fixed:1/clip:1", 4), Some(0.5));
        assert_eq!(of("fixed:1/clip:3", 1), Some(3.0));
        assert_eq!(of("fixed:1", 4), None);
    }
}
