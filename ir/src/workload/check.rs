//! Plausibility checks of a [`Workload`].

mod partition;

use super::{COLUMN_RUNS, Origin, PartitionSummary, Workload};
use crate::words::types::MAX_SETS;
use partition::check_alpha;
use std::fmt::Display;

/// Most vertices in a graph.
pub const MAX_VERTICES: u64 = u32::MAX as u64 - 1;
/// Most edges in a graph.
pub const MAX_EDGES: u64 = 1_000_000_000_000_000;
/// Most features or classes.
pub const MAX_WIDTH: u32 = 1 << 20;
/// Most edge types: their numbers have 16 bits.
pub const MAX_RELATIONS: u32 = 65_535;

/// Most pairs without a link for each link.
pub const MAX_NEGATIVES: u32 = 1000;

/// Most types of vertices, each of which is a column of the features.
pub const MAX_VERTEX_TYPES: u32 = 1024;

/// Tolerance between a replication factor and the halos that it summarizes.
const TOLERANCE: f64 = 1e-6;

/// An impossible number in a workload.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is {found}, expected {expected}")]
pub struct WorkloadError {
    /// The field, such as `partitions.4[0].parts[1].inner`.
    pub field: String,
    /// The number found.
    pub found: String,
    /// What was expected.
    pub expected: String,
}

type Checked = Result<(), WorkloadError>;

/// Returns an error unless `holds`.
fn expect(
    holds: bool,
    field: impl Display,
    found: impl Display,
    expected: impl Display,
) -> Checked {
    if holds {
        return Ok(());
    }
    Err(WorkloadError {
        field: field.to_string(),
        found: found.to_string(),
        expected: expected.to_string(),
    })
}

impl Workload {
    /// Checks every number alone and against the others, so that no plan rests on an impossible
    /// graph.
    ///
    /// # Errors
    /// The first wrong number.
    pub fn check(&self) -> Checked {
        let Self {
            vertices,
            edges,
            features,
            classes,
            ..
        } = *self;
        let from_1 = |most: u64| format!("1 to {most}");
        expect(
            (1..=MAX_VERTICES).contains(&vertices),
            "vertices",
            vertices,
            from_1(MAX_VERTICES),
        )?;
        let most = most_edges(vertices, self.relations);
        expect(edges <= most, "edges", edges, format!("at most {most}"))?;
        for (field, found) in [("features", features), ("classes", classes)] {
            let wide = u64::from(MAX_WIDTH);
            expect((1..=MAX_WIDTH).contains(&found), field, found, from_1(wide))?;
        }
        for (field, found, most) in [
            ("vertex_types", self.vertex_types, features),
            ("relations", self.relations, MAX_RELATIONS),
        ] {
            expect(found <= most, field, found, format!("at most {most}"))?;
        }
        let cells = vertices * u64::from(features);
        expect(
            self.feature_nonzeros <= cells,
            "feature_nonzeros",
            self.feature_nonzeros,
            format!("at most {cells} (vertices times features)"),
        )?;
        let is_square = u64::from(features) == vertices && self.feature_nonzeros == vertices;
        expect(
            !self.identity_features || is_square,
            "identity_features",
            self.identity_features,
            "false, unless `features` and `feature_nonzeros` are as many as the vertices"
                .to_owned(),
        )?;
        self.check_columns()?;
        for (i, &found) in self.split.iter().enumerate() {
            let expected = format!("at most the {vertices} vertices");
            expect(found <= vertices, format!("split[{i}]"), found, expected)?;
        }
        self.check_degrees()?;
        self.check_sets()?;
        for (&parts, &alpha) in &self.replication {
            let field = format!("replication.{parts}");
            self.check_parts(&field, parts)?;
            check_alpha(&field, parts, alpha)?;
        }
        for (&parts, summaries) in &self.partitions {
            let field = format!("partitions.{parts}");
            self.check_parts(&field, parts)?;
            for (n, summary) in summaries.iter().enumerate() {
                let field = format!("{field}[{n}]");
                self.check_partition(&field, parts, summary)?;
                let again = |p: &PartitionSummary| p.partitioner == summary.partitioner;
                expect(
                    !summaries[..n].iter().any(again),
                    format!("{field}.partitioner"),
                    format!("{} twice", summary.partitioner),
                    "one partition per partitioner",
                )?;
            }
        }
        Ok(())
    }

    /// Checks the non-zeros of column runs.
    fn check_columns(&self) -> Result<(), WorkloadError> {
        let found = self.column_nonzeros.len() as u64;
        let most = u64::from(self.features.min(COLUMN_RUNS));
        let expected = format!("at most {most} runs of columns");
        expect(found <= most, "column_nonzeros", found, expected)?;
        let sum = self
            .column_nonzeros
            .iter()
            .fold(0u64, |sum, n| sum.saturating_add(*n));
        let all = self.feature_nonzeros;
        let expected = format!("{all} in total, as `feature_nonzeros` says");
        expect(found == 0 || sum == all, "column_nonzeros", sum, expected)
    }

    /// Checks the histogram and the largest degree; also against the edges if they were
    /// counted.
    fn check_degrees(&self) -> Checked {
        let (vertices, histogram) = (self.vertices, &self.degree_histogram);
        // Edges of several types may join the same two vertices.
        let types = u64::from(self.relations.max(1));
        let of_types = match types {
            1 => String::new(),
            _ => format!(", for each of {types} types of edges"),
        };
        expect(
            self.max_degree <= vertices.saturating_mul(types),
            "max_degree",
            self.max_degree,
            format!("at most the {vertices} vertices{of_types}"),
        )?;
        let reuse = &self.reuse;
        let shares = reuse.iter().all(|share| (0.0..=1.0).contains(share));
        expect(
            reuse.len() <= 64 && reuse.is_sorted() && shares,
            "reuse",
            format!("{reuse:?}"),
            "at most 64 shares between 0 and 1, in ascending order",
        )?;
        if histogram.is_empty() {
            return Ok(());
        }
        let counted: u128 = histogram.iter().map(|&count| u128::from(count)).sum();
        expect(
            counted == u128::from(vertices),
            "degree_histogram",
            format!("{counted} vertices in total"),
            format!("the {vertices} of `vertices`"),
        )?;
        if self.origin == Origin::Declared {
            return Ok(());
        }
        let last = histogram.iter().rposition(|&count| count > 0).unwrap_or(0);
        let bucket = (u64::BITS - self.max_degree.leading_zeros()) as usize;
        expect(
            last == bucket,
            "degree_histogram",
            format!("{last} as the last nonzero entry"),
            format!("{bucket}, that of `max_degree` {}", self.max_degree),
        )?;
        let edges = |degree: &dyn Fn(u32) -> u128| -> u128 {
            let entries = (0u32..).zip(histogram);
            entries
                .map(|(k, &count)| degree(k) * u128::from(count))
                .sum()
        };
        // Entry 33 is the last one whose degrees fit the number of vertices.
        let low = edges(&|k| (1u128 << k.min(64)) >> 1);
        let high = edges(&|k| (1u128 << k.min(64)) - 1);
        expect(
            (low..=high).contains(&u128::from(self.edges)),
            "edges",
            self.edges,
            format!("{low} to {high}, as `degree_histogram` says"),
        )
    }

    fn check_sets(&self) -> Checked {
        let sets = &self.edge_sets;
        let expected = format!("at most {MAX_SETS} sets");
        expect(sets.len() <= MAX_SETS, "edge_sets", sets.len(), expected)?;
        for (n, set) in sets.iter().enumerate() {
            let field = format!("edge_sets[{n}]");
            let again = sets[..n].iter().any(|other| other.name == set.name);
            let named = !set.name.is_empty() && !again;
            let expected = "a name of its own";
            expect(
                named,
                format!("{field}.name"),
                format!("{:?}", set.name),
                expected,
            )?;
            let most = most_edges(self.vertices, 0);
            let expected = format!("at most {most}");
            expect(
                set.edges <= most,
                format!("{field}.edges"),
                set.edges,
                expected,
            )?;
            let most = self.vertices.min(set.edges);
            let expected = format!("at most {most}");
            let degree = set.max_degree;
            expect(
                degree <= most,
                format!("{field}.max_degree"),
                degree,
                expected,
            )?;
        }
        Ok(())
    }

    fn check_parts(&self, field: &str, parts: u32) -> Checked {
        let vertices = self.vertices;
        expect(
            parts > 0 && u64::from(parts) <= vertices,
            field,
            format!("for {parts} parts"),
            format!("1 to {vertices} parts, no more than there are vertices"),
        )
    }
}

/// Most edges in a graph: one of each type between each ordered pair of vertices. Repeated
/// edges and self loops are not stored.
pub fn most_edges(vertices: u64, relations: u32) -> u64 {
    let pairs = vertices.saturating_mul(vertices.saturating_sub(1));
    let all = pairs.saturating_mul(u64::from(relations.max(1)));
    all.min(MAX_EDGES)
}

#[cfg(test)]
mod tests;
