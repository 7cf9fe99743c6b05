//! Checks of partitions.

use super::{Checked, TOLERANCE, expect};
use crate::workload::{PartLoad, PartitionSummary, TierLoad, Workload};

impl Workload {
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

    pub(super) fn check_partition(
        &self,
        field: &str,
        parts: u32,
        summary: &PartitionSummary,
    ) -> Checked {
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
        let sum = |of: fn(&PartLoad) -> u64| -> u128 {
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

/// Checks that a vertex lies in at most `parts - 1` halos.
pub(super) fn check_alpha(field: &str, parts: u32, alpha: f64) -> Checked {
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
        let fits = |(part, row): (&PartLoad, &Vec<u64>)| {
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
