//! Shorter models, by whose costs the layouts of deep ones are chosen.

use super::kept::KeptPrograms;
use crate::Compiled;
use gnnc_planner::LowerError;
use gnnc_planner::layout::Pure;
use gnnc_planner::lower::pure;
use gnnc_planner::search::{Fewer, Lower, PlacementSpec, Programs, Shorter};
use gnnc_planner::shorten::{Short, Shortened};

/// Two models with fewer of the layers that are alike.
pub(super) struct ShortModels {
    /// How many of these layers the whole model has.
    layers: usize,
    less: ShortModel,
    more: ShortModel,
}

/// One of them, with the programs that were made last.
struct ShortModel {
    short: Short,
    made: KeptPrograms,
}

impl ShortModels {
    /// Those of a model; `None` if it has few layers that are alike.
    pub(super) fn of(compiled: &Compiled) -> Option<Self> {
        let found = Shortened::of(&compiled.training)?;
        let model = |short: Short| ShortModel {
            short,
            made: KeptPrograms::default(),
        };
        Some(Self {
            layers: found.layers,
            less: model(found.less),
            more: model(found.more),
        })
    }

    /// As a search needs them.
    pub(super) fn shorter(&self) -> Shorter<'_> {
        fn fewer(model: &ShortModel) -> Fewer<'_> {
            Fewer {
                layers: model.short.layers,
                lower: model,
            }
        }
        Shorter {
            layers: self.layers,
            less: fewer(&self.less),
            more: fewer(&self.more),
        }
    }
}

impl Lower for ShortModel {
    fn programs(&self, spec: &PlacementSpec) -> Result<Programs, LowerError> {
        self.made.lowered(spec, || Ok(&self.short.training))
    }

    fn pure(&self, ranks: u32) -> Result<Pure, LowerError> {
        pure(&self.short.training, ranks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LoadOptions, Loaded, Source, compile};
    use gnnc_ir::cluster::Cluster;
    use gnnc_ir::plan::{Partitioner, Placement};
    use gnnc_planner::parts::parts;
    use gnnc_planner::placement;
    use gnnc_planner::simulate::simulate;

    const LAYERS: usize = 40;

    /// A layer of each kind; `H` is what comes before it.
    const KINDS: [&str; 4] = [
        "H |> gcn_conv(hidden) |> relu |> dropout(0.5)",
        "H |> sage_conv(hidden) |> relu",
        "H |> gat_conv(16, heads = 4) |> elu",
        "H + (H |> layer_norm |> relu |> gcn_conv(hidden))",
    ];

    fn model(layer: &str) -> String {
        let layers = (0..LAYERS).map(|n| {
            let layer = layer.replace('H', &format!("h{n}"));
            format!("  let h{} = {layer}\n", n + 1)
        });
        let layers: String = layers.collect();
        format!(
            "graph big {{ vertices = 232_965 edges = 114_615_892 features = 602 classes = 41 }}\n\
             model deep(hidden = 64) on big {{\n  let h0 = x |> linear(hidden)\n{layers}  \
             loss cross_entropy(h{LAYERS} |> linear(classes), labels, on = train)\n}}\n\
             train {{ optimizer = adam(lr = 0.01) }}\n"
        )
    }

    /// Seconds of an epoch and of an evaluation, and bytes of memory.
    fn measures(
        lower: &dyn Fn(&PlacementSpec) -> Result<Programs, LowerError>,
        loaded: &Loaded,
        placement: Placement,
    ) -> [f64; 3] {
        let mut spec = PlacementSpec::new(placement, 8);
        spec.knobs.partitioner = Some(Partitioner::Metis);
        let parts = parts(&loaded.workload, spec.parts(), spec.partitioner()).unwrap();
        let programs = lower(&spec).unwrap();
        let parts = parts.of(&programs[0]);
        let cluster = Cluster::named("a100x8").unwrap();
        let found = simulate(&programs[0], &cluster, &parts).unwrap();
        [
            found.epoch.seconds.0,
            found.eval.seconds.0,
            found.peak_memory_bytes.0 as f64,
        ]
    }

    /// What deep models cost follows from two shorter ones.
    #[test]
    fn costs_are_linear_in_the_layers() {
        for layer in KINDS {
            let source = Source::new("deep.gir", model(layer));
            let loaded = Loaded::new(&source, &LoadOptions::default()).unwrap();
            let compiled = compile(&loaded.model, &loaded.workload).unwrap();
            let models =
                ShortModels::of(&compiled).unwrap_or_else(|| panic!("{layer} is not shortened"));
            // The first layers may be computed in another order.
            assert!(models.layers + 2 >= LAYERS, "{layer}: {}", models.layers);
            let [less, more] = [&models.less, &models.more];
            let times = (models.layers - more.short.layers) as f64
                / (more.short.layers - less.short.layers) as f64;
            for placement in [Placement::Graph, Placement::Tensor] {
                let of =
                    |model: &ShortModel| measures(&|spec| model.programs(spec), &loaded, placement);
                let [less, more] = [of(less), of(more)];
                let whole = |spec: &PlacementSpec| {
                    placement::lower(&compiled.training, spec).map(std::sync::Arc::new)
                };
                let whole = measures(&whole, &loaded, placement);
                for ((less, more), whole) in less.into_iter().zip(more).zip(whole) {
                    let line = more + (more - less) * times;
                    let off = (line / whole - 1.0).abs();
                    assert!(off < 0.01, "{layer}, {placement}: {line} for {whole}");
                }
            }
        }
    }
}
