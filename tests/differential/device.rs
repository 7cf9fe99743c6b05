//! Whole programs on a fake device that computes on the processor: against the interpreter, and
//! against sessions on the processor.

#[path = "device/clocks.rs"]
mod clocks;
#[path = "device/failures.rs"]
mod failures;
#[path = "device/fake.rs"]
pub mod fake;
#[path = "device/finds.rs"]
mod finds;
#[path = "device/host.rs"]
mod host;
#[path = "device/runs.rs"]
pub mod runs;
#[path = "device/sampled.rs"]
mod sampled;
#[path = "device/together.rs"]
mod together;

use crate::check::{Case, Way};
use crate::data::{Shape, planted, with_numbers, with_several_labels};
use crate::examples::reads_back;
use crate::models::{
    APPNP, EDGE_MODELS, GAT, GCN, GCNII, GIN, OF_EDGES, RGCN, SAGE, TYPED, WEIGHTS,
};
use fake::{Fake, Seen};
use gnnc::graph::partition::{self, Partition};
use gnnc::ir::plan::Placement;
use gnnc::ir::program::Program;
use gnnc::runtime::device::gpu::driver::Driver;
use gnnc::runtime::{RunOptions, Session};
use gnnc::{TrainOptions, place};
use std::sync::{Arc, Mutex};

/// Rows with this many edges are hubs here; some are.
const HUB_EDGES: u64 = 6;

const RES_PLUS: &str = "let h = x |> linear(6, init = kaiming) |> sage_conv(6)
     repeat l in 2..=4 { h = res_plus(h, conv = sage_conv, dropout = 0.3) }
     let z = h |> layer_norm |> relu |> dropout(0.3) |> linear(classes, init = kaiming)
     loss cross_entropy(z, labels, on = train)";

/// Builds further sessions from a trainer's options.
pub struct Again<'a> {
    case: &'a Case,
    pub programs: Vec<Program>,
    pub partition: Partition,
    pub options: RunOptions,
}

impl<'a> Again<'a> {
    pub fn new(case: &'a Case, options: &TrainOptions) -> Self {
        let data = case.loaded.data.as_ref().unwrap();
        let place = place(&case.loaded, &case.compiled, options).unwrap();
        let partition = match place.parts() {
            1 => Partition::whole(data.vertices()),
            parts => partition::by_name(options.partitioner().name(), 0)
                .unwrap()
                .partition((&data.topology).into(), parts)
                .unwrap(),
        };
        let partition = match place.stages() {
            Some(stages) => partition
                .cut_chunks(&data.topology, stages.chunks, 0)
                .unwrap(),
            None => partition,
        };
        let train = &case.loaded.model.train;
        Self {
            programs: {
                let programs = case.compiled.programs(&place).unwrap();
                reads_back(&programs);
                programs
            },
            partition,
            options: RunOptions {
                samplers: options.samplers() as usize,
                seed: train.seed,
                learning_rate: train.optimizer.learning_rate(),
                hub_edges: HUB_EDGES,
                trace: options.trace,
                ..RunOptions::default()
            },
            case,
        }
    }

    /// A session like the trainer's.
    pub fn on_processor(&self) -> Session {
        let data = self.case.loaded.data.as_ref().unwrap();
        let options = self.options.clone();
        Session::new(self.programs.clone(), data, &self.partition, options).unwrap()
    }

    pub fn on_device(&self, seen: &Arc<Mutex<Seen>>) -> Session {
        self.try_on_device(Box::new(Fake::new(seen))).unwrap()
    }

    pub fn try_on_device(
        &self,
        driver: Box<dyn Driver>,
    ) -> Result<Session, gnnc::runtime::RuntimeError> {
        let data = self.case.loaded.data.as_ref().unwrap();
        let options = self.options.clone();
        Session::on_device(
            self.programs.clone(),
            data,
            &self.partition,
            options,
            driver,
        )
    }

    /// One rank, as one of several processes.
    pub fn on_device_of(
        &self,
        rank: u32,
        driver: Box<dyn Driver>,
    ) -> Result<Session, gnnc::runtime::RuntimeError> {
        let data = self.case.loaded.data.as_ref().unwrap();
        let options = self.options.clone();
        let here = rank..rank + 1;
        Session::on_device_of(
            self.programs.clone(),
            data,
            &self.partition,
            options,
            driver,
            here,
        )
    }
}

pub fn shape(sparse: bool) -> Shape {
    Shape {
        vertices: 50,
        edges: 260,
        directed: sparse,
        sparse,
        seed: 3,
    }
}

fn case(body: &str, sparse: bool) -> Case {
    let mut case = Case::new("", body, planted(shape(sparse)));
    case.device = true;
    case
}

fn way(placement: Placement, ranks: u32) -> Way {
    Way {
        placement,
        ranks,
        partitioner: if ranks == 3 { "hash" } else { "metis" },
        threads: 1,
    }
}

/// Every placement that computes the model, except pipelines.
const EXACT: [Placement; 6] = [
    Placement::Graph,
    Placement::Tensor,
    Placement::PushPull,
    Placement::Broadcast,
    Placement::Mixed,
    Placement::SkipBroadcast,
];

/// Checks a model on one rank and on several, with dense and sparse features.
fn check(body: &str) {
    for sparse in [false, true] {
        let mut case = case(body, sparse);
        case.check(way(Placement::Graph, 1));
        for (n, placement) in EXACT.into_iter().enumerate() {
            let ranks = 2 + (n as u32 + u32::from(sparse)) % 3;
            case.check(way(placement, ranks));
        }
        if let Ok(mut case) = case.decoupled() {
            case.check(way(Placement::TensorDecoupled, 3));
        }
    }
}

#[test]
fn device_gcn() {
    check(GCN);
}

#[test]
fn device_sage() {
    check(SAGE);
}

#[test]
fn device_gat() {
    check(GAT);
}

#[test]
fn device_rgcn() {
    check(RGCN);
    check(
        "let h = x |> dropout(0.3) |> rgcn_conv(6) |> relu
         loss cross_entropy(h |> dropout(0.3) |> rgcn_conv(classes), labels, on = train)",
    );
}

#[test]
fn device_types_of_vertices() {
    check(TYPED);
}

#[test]
fn device_gin() {
    check(GIN);
}

#[test]
fn device_gcnii() {
    check(GCNII);
}

#[test]
fn device_appnp() {
    check(APPNP);
}

#[test]
fn device_res_plus() {
    check(RES_PLUS);
}

#[test]
fn device_several_labels() {
    let body = "let h = x |> dropout(0.2) |> sage_conv(6) |> relu
         loss bce_with_logits(h |> gcn_conv(classes), labels, on = train)";
    for ranks in [1, 3] {
        let data = with_several_labels(planted(shape(ranks == 3)));
        let mut case = Case::new("", body, data);
        case.device = true;
        case.check(way(Placement::Graph, ranks));
    }
}

#[test]
fn device_smoothed_labels() {
    check(
        "let h = x |> dropout(0.2) |> sage_conv(6) |> relu
         loss cross_entropy(h |> gcn_conv(classes), labels, on = train, smoothing = 0.2)",
    );
}

#[test]
fn device_weights_of_classes() {
    for (weights, ranks) in WEIGHTS.iter().zip(1..) {
        let body = format!(
            "let h = x |> dropout(0.2) |> sage_conv(6) |> relu
             loss cross_entropy(h |> gcn_conv(classes), labels, on = train, {weights})"
        );
        let mut case = Case::new("", &body, planted(shape(ranks == 3)));
        case.device = true;
        case.check(way(Placement::Graph, ranks));
    }
    let body = "let h = x |> dropout(0.2) |> sage_conv(6) |> relu
         loss bce_with_logits(h |> gcn_conv(classes), labels, on = train, weights = [4, 0.5, 0])";
    let mut case = Case::new("", body, with_several_labels(planted(shape(false))));
    case.device = true;
    case.check(way(Placement::Graph, 2));
}

#[test]
fn device_numbers() {
    let number = ", delta = 0.2";
    let losses = [
        ("mse", "", 1),
        ("mae", "", 2),
        ("huber", "", 3),
        ("huber", number, 1),
    ];
    for (loss, number, ranks) in losses {
        let body = format!(
            "let h = x |> dropout(0.2) |> sage_conv(6) |> relu
             loss {loss}(0.1 * gcn_conv(h, classes), labels, on = train{number})"
        );
        let mut case = Case::new("", &body, with_numbers(planted(shape(ranks == 3))));
        case.device = true;
        case.check(way(Placement::Graph, ranks));
    }
}

#[test]
fn device_features_of_edges() {
    for (ranks, body) in (1..).zip(EDGE_MODELS) {
        let mut case = Case::new(OF_EDGES, body, planted(shape(ranks == 3)));
        case.device = true;
        case.check(way(Placement::Graph, ranks));
    }
}
