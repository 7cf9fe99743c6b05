//! How much of their operands launches touch.

use super::{Check, Checked};
use crate::kernel::Walk;
use crate::kernel::{At, Body, Kernel, Operand};
use crate::program::{Extent, Halo, Launch, Role};

/// Number of rows of each kind.
#[derive(Default)]
pub(super) struct Reach {
    pub(super) row: u64,
    pub(super) src: u64,
    pub(super) dst: u64,
    pub(super) edge: u64,
}

impl Reach {
    /// The same number of every kind.
    pub(super) fn all(rows: u64) -> Self {
        Self {
            row: rows,
            src: rows,
            dst: rows,
            edge: rows,
        }
    }

    /// Floats of a buffer up to the last element that an operand touches.
    pub(super) fn floats(&self, operand: &Operand, heads: u32, width: u32) -> Result<u64, String> {
        let rows = match operand.at {
            At::Row => self.row,
            At::Src => self.src,
            At::Dst => self.dst,
            At::Edge => self.edge,
            At::One => 1,
            At::List => return Err("a row list, which no instruction provides".to_owned()),
        };
        Ok(match rows {
            0 => 0,
            rows => {
                let stride = if operand.at == At::One {
                    0
                } else {
                    u64::from(operand.stride)
                };
                (rows - 1)
                    .saturating_mul(stride)
                    .saturating_add(Self::one(operand, heads, width))
            }
        })
    }

    /// Elements of the first row up to the last one touched.
    pub(super) fn one(operand: &Operand, heads: u32, width: u32) -> u64 {
        let step = |count: u32, step: u32| u64::from(count.saturating_sub(1)) * u64::from(step);
        let places = operand
            .picked
            .map_or(0, |picked| step(picked.count, picked.step));
        u64::from(operand.offset)
            + places
            + step(heads, operand.head_step)
            + step(width, operand.column_step)
            + 1
    }
}

impl Check<'_> {
    /// Checks that the numbers that pick a place are below the number of places.
    pub(super) fn picked(&self, what: &str, operand: &Operand, launch: &Launch) -> Checked {
        let Some(picked) = operand.picked else {
            return Ok(());
        };
        let by = launch.inputs.get(usize::from(picked.by));
        let types = by.and_then(|at| {
            let buffer = self.program.buffers.get(at.buffer.0 as usize)?;
            match buffer.role {
                Role::Relation(count) => Some(count),
                _ => self.drawn_types(at.buffer),
            }
        });
        match types {
            Some(count) if count <= picked.count => Ok(()),
            _ => Err(format!(
                "{what} has {} places, picked by a buffer that does not hold edge types or holds more of them",
                picked.count
            )),
        }
    }

    /// Rows of the sources of a launch over a batch that reads them in tensors of all vertices.
    fn vertices_at_sources(&self, launch: &Launch, kernel: &Kernel) -> Result<u64, String> {
        let walk = Walk::of(&kernel.body);
        let sources = kernel.inputs.iter().zip(&launch.inputs);
        let mut sources = sources.filter(|(operand, _)| operand.at == At::Src);
        let alone = self.program.ranks <= 1;
        let of_all_vertices = sources.all(|(_, at)| {
            let buffer = self.program.buffers.get(at.buffer.0 as usize);
            buffer.is_some_and(|buffer| {
                let own = matches!(buffer.extent, Extent::Inner | Extent::Local);
                buffer.extent == Extent::All || own && alone
            })
        });
        let by_destination = matches!(walk, Walk::Edges | Walk::EdgesByDestination);
        if !of_all_vertices || !by_destination || !kernel.masks.is_empty() {
            return Err(
                "a kernel over a batch reads some sources in place, expected all of them in tensors of all vertices, edges by destination and no dropout"
                    .to_owned(),
            );
        }
        Ok(self.data.capacity.most().vertices)
    }

    /// Number of rows of each kind that a launch touches.
    pub(super) fn reach(&self, launch: &Launch, kernel: &Kernel) -> Result<Reach, String> {
        let sizes = self.data.capacity.most();
        let rows = sizes.rows(launch.rows);
        let walk = Walk::of(&kernel.body);
        let of = |rows| sizes.rows(rows);
        let (inner, local) = if let Some(level) = launch.rows.level() {
            let by_source = walk == Walk::EdgesBySource;
            let above = if by_source { level.above() } else { level };
            let below = above.below().unwrap_or(above);
            let sources = match launch.reads_vertices(self.program) {
                true => self.vertices_at_sources(launch, kernel)?,
                false => of(Extent::Level(below)),
            };
            (of(Extent::Level(above)), sources)
        } else if launch.rows.of_whole_graph() {
            match self.program.in_groups() {
                true => (of(Extent::All), of(Extent::AllLocal)),
                false => (of(Extent::All), of(Extent::All)),
            }
        } else if self.program.halo == Halo::Cover {
            // Edges lead into own rows and into targets of other ranks.
            (of(Extent::Local), of(Extent::Local))
        } else if self.program.halo == Halo::BothEnds && walk == Walk::EdgesBySource {
            // Edges out of own rows, or also those out of halo rows into own ones.
            (of(Extent::Local), rows.max(of(Extent::Inner)))
        } else {
            (of(Extent::Inner), of(Extent::Local))
        };
        let expected = match walk {
            Walk::Rows => rows,
            Walk::Edges | Walk::EdgesByDestination | Walk::EdgesByType => inner,
            Walk::EdgesBySource => local,
        };
        if rows != expected {
            return Err(format!(
                "a kernel over edges runs over {rows} rows, expected {expected}"
            ));
        }
        let batch = launch.rows.of_batch();
        if walk == Walk::Rows && !kernel.masks.is_empty() && !batch && rows > local {
            return Err(format!("dropout of {rows} rows, which are not vertices"));
        }
        let edges = launch.rows.walked(&kernel.body);
        let edges = edges.map_or(0, |edges| sizes.rows(edges));
        let types = match kernel.body {
            Body::TypeSum { types, .. } => types,
            _ => 0,
        };
        let relations = self.data.relations;
        if walk == Walk::EdgesByType && types != relations {
            return Err(format!(
                "a sum over {types} edge types, but the graph has {relations}"
            ));
        }
        Ok(match walk {
            Walk::EdgesByType => Reach {
                row: types.into(),
                edge: edges,
                ..Reach::default()
            },
            Walk::Rows => Reach {
                row: rows,
                ..Reach::default()
            },
            Walk::Edges => Reach {
                row: edges,
                src: local,
                dst: inner,
                edge: edges,
            },
            Walk::EdgesByDestination => Reach {
                row: inner,
                src: local,
                dst: inner,
                edge: edges,
            },
            Walk::EdgesBySource => Reach {
                row: local,
                src: local,
                dst: inner,
                edge: edges,
            },
        })
    }
}
