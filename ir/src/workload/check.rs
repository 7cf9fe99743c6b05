//! Plausibility checks of a [`Workload`].

use super::{COLUMN_RUNS, Origin, PartitionSummary, TierLoad, Workload};
use crate::words::types::MAX_SETS;
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

    /// Checks partitions into groups of consecutive parts.
    fn check_groups(&self, field: &str, parts: u32, summary: &PartitionSummary) -> Checked {
        for (n, groups) in summary.groups.iter().enumerate() {
            let field = format!("{field}.groups[{n}]");
            let count = groups.parts.len() as u32;
            expect(
                (1..parts).contains(&count) && parts.is_multiple_of(count),
                format!("{field}.parts"),
                format!("{count} groups"),
                format!("fewer than the {parts} parts, in a number that divides them"),
            )?;
            let within = groups.groups.len();
            expect(
                within == 0,
                format!("{field}.groups"),
                within,
                "none within groups",
            )?;
            self.check_partition(&field, count, groups)?;
        }
        Ok(())
    }

    fn check_partition(&self, field: &str, parts: u32, summary: &PartitionSummary) -> Checked {
        let loads = &summary.parts;
        expect(
            loads.len() == parts as usize,
            format!("{field}.parts"),
            format!("{} parts", loads.len()),
            format!("{parts}"),
        )?;
        for (part, load) in loads.iter().enumerate() {
            let outside = self.vertices.saturating_sub(load.inner);
            expect(
                load.halo <= outside,
                format!("{field}.parts[{part}].halo"),
                load.halo,
                format!("at most the {outside} vertices outside the part"),
            )?;
            let reach = load.reach.unwrap_or_default();
            for (name, found, most, of) in [
                ("interior", reach.interior, load.inner, "vertices"),
                ("interior_edges", reach.interior_edges, load.edges, "edges"),
                (
                    "halo_edges",
                    reach.halo_edges,
                    load.edges.saturating_sub(reach.interior_edges),
                    "edges into other vertices",
                ),
            ] {
                expect(
                    found <= most,
                    format!("{field}.parts[{part}].reach.{name}"),
                    found,
                    format!("at most the {most} {of} of the part"),
                )?;
            }
        }
        let sum = |of: fn(&super::PartLoad) -> u64| -> u128 {
            loads.iter().map(|load| u128::from(of(load))).sum()
        };
        let [train, val, test] = self.split;
        // Workloads of earlier versions do not say these of parts.
        let or_none = |found: u128, whole: u64| if found == 0 { 0 } else { whole };
        let evaluated = [sum(|load| load.val), sum(|load| load.test)];
        for (name, found, whole, of) in [
            ("inner", sum(|load| load.inner), self.vertices, "vertices"),
            ("edges", sum(|load| load.edges), self.edges, "edges"),
            ("train", sum(|load| load.train), train, "split[0]"),
            ("val", evaluated[0], or_none(evaluated[0], val), "split[1]"),
            (
                "test",
                evaluated[1],
                or_none(evaluated[1], test),
                "split[2]",
            ),
            (
                "feature_nonzeros",
                sum(|load| load.feature_nonzeros),
                self.feature_nonzeros,
                "feature_nonzeros",
            ),
        ] {
            expect(
                found == u128::from(whole),
                format!("{field}.parts[..].{name}"),
                format!("{found} in total"),
                format!("the {whole} of `{of}`"),
            )?;
        }
        for (number, set) in (1..).zip(&self.edge_sets) {
            let of_parts = loads
                .iter()
                .map(|load| u128::from(load.named_edges.of(number)));
            let found: u128 = of_parts.sum();
            expect(
                found == u128::from(set.edges),
                format!("{field}.parts[..].named_edges"),
                format!("{found} in total"),
                format!("the {} of the set `{}`", set.edges, set.name),
            )?;
        }
        check_alpha(&format!("{field}.alpha"), parts, summary.alpha)?;
        let alpha = sum(|load| load.halo) as f64 / self.vertices as f64;
        expect(
            (summary.alpha - alpha).abs() <= TOLERANCE * (1.0 + alpha),
            format!("{field}.alpha"),
            summary.alpha,
            format!("{alpha}, the halos over the vertices"),
        )?;
        self.check_groups(field, parts, summary)?;
        check_messages(field, summary)?;
        check_nodes(field, summary)?;
        check_cover(field, summary)
    }
}

/// Most edges in a graph: one of each type between each ordered pair of vertices. Repeated
/// edges and self loops are not stored.
pub fn most_edges(vertices: u64, relations: u32) -> u64 {
    let pairs = vertices.saturating_mul(vertices.saturating_sub(1));
    let all = pairs.saturating_mul(u64::from(relations.max(1)));
    all.min(MAX_EDGES)
}

/// Checks that a vertex lies in at most `parts - 1` halos.
fn check_alpha(field: &str, parts: u32, alpha: f64) -> Checked {
    let most = f64::from(parts) - 1.0;
    expect(
        (0.0..=most + TOLERANCE).contains(&alpha),
        field,
        alpha,
        format!("0 to {most}, as there are {parts} parts"),
    )
}

/// Checks that the rows that parts send add up to their readers' halos.
fn check_messages(field: &str, summary: &PartitionSummary) -> Checked {
    let (messages, loads) = (&summary.messages, &summary.parts);
    if messages.is_empty() {
        return Ok(());
    }
    let field = format!("{field}.messages");
    let parts = loads.len();
    let square = messages.len() == parts && messages.iter().all(|row| row.len() == parts);
    expect(
        square,
        &field,
        format!("{} rows", messages.len()),
        format!("{parts} rows of {parts}"),
    )?;
    for (i, row) in messages.iter().enumerate() {
        for (j, &rows) in row.iter().enumerate() {
            let most = if i == j { 0 } else { loads[i].inner };
            expect(
                rows <= most,
                format!("{field}[{i}][{j}]"),
                rows,
                format!("at most {most}, what part {i} can send to part {j}"),
            )?;
        }
    }
    for (j, load) in loads.iter().enumerate() {
        let read: u128 = messages.iter().map(|row| u128::from(row[j])).sum();
        expect(
            read == u128::from(load.halo),
            format!("{field}[..][{j}]"),
            format!("{read} in total"),
            format!("the halo of part {j}, {}", load.halo),
        )?;
    }
    Ok(())
}

/// Checks that what crosses to nodes is what ranks read there.
fn check_nodes(field: &str, summary: &PartitionSummary) -> Checked {
    let parts = summary.parts.len();
    for (n, nodes) in summary.nodes.iter().enumerate() {
        let field = format!("{field}.nodes[{n}]");
        let divides = nodes.node_ranks > 1 && parts.is_multiple_of(nodes.node_ranks as usize);
        expect(
            divides,
            format!("{field}.node_ranks"),
            nodes.node_ranks,
            format!("a number above 1 that divides the {parts} parts"),
        )?;
        expect(
            nodes.ranks.len() == parts,
            format!("{field}.ranks"),
            format!("{} loads", nodes.ranks.len()),
            format!("{parts}, one per part"),
        )?;
        for (rank, (load, part)) in nodes.ranks.iter().zip(&summary.parts).enumerate() {
            let read = load.arriving.saturating_add(load.forwarded);
            expect(
                read <= part.halo,
                format!("{field}.ranks[{rank}]"),
                format!("{read} rows from other nodes"),
                format!("at most the halo of part {rank}, {}", part.halo),
            )?;
        }
        let sum = |of: fn(&TierLoad) -> u64| -> u128 {
            nodes.ranks.iter().map(|load| u128::from(of(load))).sum()
        };
        let (sent, received) = (sum(|load| load.crossing), sum(|load| load.arriving));
        let (passed, forwarded) = (sum(|load| load.passed), sum(|load| load.forwarded));
        expect(
            sent == received && passed == forwarded,
            format!("{field}.ranks"),
            format!("{sent} rows sent and {passed} passed on"),
            format!("as many as arrive, {received} and {forwarded}"),
        )?;
    }
    Ok(())
}

/// Checks that covers have as many parts and edges, and no more rows than parts have.
fn check_cover(field: &str, summary: &PartitionSummary) -> Checked {
    let Some(cover) = &summary.cover else {
        return Ok(());
    };
    let (field, parts) = (format!("{field}.cover"), summary.parts.len());
    for (name, rows) in [("messages", &cover.messages), ("targets", &cover.targets)] {
        let fits = |(part, row): (&super::PartLoad, &Vec<u64>)| {
            row.len() == parts && row.iter().all(|rows| *rows <= part.inner)
        };
        let square = rows.len() == parts && summary.parts.iter().zip(rows).all(fits);
        expect(
            square,
            format!("{field}.{name}"),
            format!("{} rows", rows.len()),
            format!("{parts} rows of {parts}, none above what its part has"),
        )?;
    }
    let edges: u128 = cover.edges.iter().map(|edges| u128::from(*edges)).sum();
    let all: u128 = summary
        .parts
        .iter()
        .map(|part| u128::from(part.edges))
        .sum();
    expect(
        cover.edges.len() == parts && cover.halo_edges.len() == parts && edges == all,
        format!("{field}.edges"),
        format!("{edges} in {} parts", cover.edges.len()),
        format!("{all} in {parts}"),
    )
}

#[cfg(test)]
mod tests;
