//! The chosen candidate of a plan, or why there is none.

use super::{View, short_seconds, unchosen, wrap};
use gnnc_ir::cluster::{Basis, Cluster};
use gnnc_ir::plan::{Candidate, Layout, Main, Objective, Plan};
use gnnc_ir::words::spelling::counted;
use gnnc_ir::words::units::Seconds;
use std::fmt::Write;

/// Appends what is chosen and what is known about it.
pub(super) fn write_choice(out: &mut String, plan: &Plan, view: &View) {
    let mut fact = |key: &str, value: &str| wrap(out, &format!("{key:<11}"), value, view.width);
    let Some(choice) = plan.choice() else {
        fact("chosen", &format!("nothing: {}", unchosen(plan)));
        if let Some(best) = plan.candidates.first().filter(|_| !view.why) {
            fact("why", &format!("{}: {}", best.name(), best.reason));
        }
        return;
    };
    fact("chosen", &choice.name());
    if !view.why {
        fact("why", &choice.reason);
    }
    if let (Some(goal), Some(known)) = (&plan.goal, &choice.to_target) {
        if let (Some(needed), Some(time)) = (known.needed, known.seconds) {
            fact(
                "target",
                &format!("{} in {time}, by {}", goal.score(), needed.expected_text()),
            );
        }
        if let Some(rate) = known.learning_rate() {
            fact("train with", &goal.options(rate));
        }
    }
    let (low, high) = (choice.range.low, choice.range.high);
    let seconds = choice.epoch_seconds;
    fact("epoch", &format!("{seconds}, between {low} and {high}"));
    fact("evaluation", &evaluation(plan, choice));
    if let Some(text) = floor(plan, choice) {
        fact("launches", &text);
    }
    if let Some(price) = plan.cluster.price(seconds) {
        let devices = counted(plan.cluster.devices(), "device");
        fact("cost", &format!("{} an epoch, for {devices}", cost(price)));
    }
    if let Some(text) = close(plan, choice) {
        fact("close", &text);
    }
    if let Some(text) = idle(plan, choice) {
        fact("idle", &text);
    }
    fact("basis", &basis(choice, &plan.cluster));
    let parameters = &choice.parameters;
    let mut lie: Vec<String> = Vec::new();
    let found = parameters.knobs.layouts();
    if found.features == Layout::Columns {
        lie.push(format!("features by {}", found.features));
    }
    if !found.epoch.is_empty() {
        let (epoch, eval) = (layouts(&found.epoch), layouts(&found.eval));
        lie.push(format!("training {epoch}; evaluation {eval}"));
    }
    if !lie.is_empty() {
        fact("layouts", &lie.join("; "));
    }
    if parameters.knobs.overlap == Some(false) {
        let says = "none: communication does not overlap with computation";
        fact("overlap", says);
    }
    if parameters.knobs.interior == Some(true) {
        let says = "interior rows are computed while halo rows are in flight";
        fact("overlap", says);
    }
    let halo = choice.volume.halo;
    if choice.volume.halo_between.0 > 0 {
        let between = choice.volume.halo_between;
        let once = match parameters.knobs.node_ranks {
            Some(_) => ", where each row crosses to a node once",
            None => "",
        };
        fact("halos", &format!("{between} of {halo} between nodes{once}"));
    }
    let kinds = choice.breakdown.iter();
    let kinds = kinds.filter(|kind| kind.seconds.0 > 0.0).take(6);
    let kinds: Vec<String> = kinds
        .map(|kind| format!("{} {}", kind.name, kind.seconds))
        .collect();
    fact("breakdown", &kinds.join(", "));
}

/// An amount of money with three significant digits; its currency is that of the cluster's price.
pub fn cost(price: f64) -> String {
    match price {
        p if p >= 99.95 => format!("{p:.0}"),
        p if p >= 1.0 => format!("{p:.2}"),
        p if p >= 1e-4 => {
            let zeros = (-p.log10()).floor().max(0.0) as usize;
            format!("{p:.*}", zeros + 3)
        }
        p => format!("{p:.2e}"),
    }
}

/// What an evaluation takes, and whether it counts.
fn evaluation(plan: &Plan, choice: &Candidate) -> String {
    let (own, epoch) = (choice.eval_seconds, choice.epoch_seconds.0);
    let ratio = own.0 / epoch.max(f64::MIN_POSITIVE);
    let takes = format!("{own}, {ratio:.2} times an epoch");
    match (plan.evaluate_every, plan.objective) {
        (Some(1), _) => format!("{takes}; one for each epoch counts"),
        (Some(every), _) => format!("{takes}; one for every {every} epochs counts"),
        (None, Objective::TimeToAccuracy) => takes,
        (None, _) => format!("{takes}; does not count (--evaluate-every)"),
    }
}

/// How much of computing waits for kernels to start, from a twentieth on.
fn floor(plan: &Plan, choice: &Candidate) -> Option<String> {
    let share = choice.floor_seconds.0 / choice.compute_seconds.0.max(f64::MIN_POSITIVE);
    let floor = Seconds(plan.cluster.launch_floor());
    (share >= 0.05).then(|| {
        format!(
            "{:.0} % of computing are kernels that take no longer than to start them ({floor})",
            100.0 * share
        )
    })
}

/// Share of draws from which on a candidate that is faster in them may as well be the best one.
const CLOSE: f64 = 0.1;

/// Says so if another candidate is faster in many draws of what is uncertain.
fn close(plan: &Plan, choice: &Candidate) -> Option<String> {
    if plan.objective != Objective::Time {
        return None;
    }
    let on_batches = |c: &Candidate| c.parameters.knobs.sampling.sampling().is_some();
    let others = plan.candidates.iter().filter(|c| !std::ptr::eq(*c, choice));
    let rivals = others.filter(|c| c.allowed && c.fits && on_batches(c) == on_batches(choice));
    let faster = |c: &Candidate| c.against_best.and_then(|against| against.faster);
    let shares = rivals.filter_map(|rival| Some((rival, faster(rival)?)));
    // Of equal shares the first one, which takes less.
    let (rival, share) = shares.reduce(|a, b| if b.1 > a.1 { b } else { a })?;
    (share >= CLOSE).then(|| {
        format!(
            "too close to call: {} takes {}, and is the faster one in {:.0} % of the draws of what is uncertain; only \
             runs of both tell",
            rival.name(),
            rival.epoch_seconds,
            100.0 * share
        )
    })
}

/// How many devices stay idle, and why.
fn idle(plan: &Plan, choice: &Candidate) -> Option<String> {
    let (devices, ranks) = (plan.cluster.devices(), choice.parameters.ranks);
    let idle = devices.checked_sub(ranks).filter(|idle| *idle > 0)?;
    let of = format!("{idle} of {}", counted(devices, "device"));
    let mut all = plan.candidates.iter();
    let Some(busy) = all.find(|c| c.allowed && c.fits && c.parameters.ranks == devices) else {
        return Some(format!(
            "{of}: no listed candidate that uses all of them fits and is allowed"
        ));
    };
    let worse = match plan.objective {
        Objective::Time => {
            let mostly = busy.against_best.map(|against| match against.main {
                Main::ExposedCommunication => ", mostly for exposed communication",
                Main::Bubble => ", mostly for waiting",
                Main::Compute => ", mostly for computing",
            });
            let [own, other] = [busy, choice].map(|c| short_seconds(c.epoch_seconds.0));
            format!(
                "takes {own} instead of {other}{}",
                mostly.unwrap_or_default()
            )
        }
        Objective::Memory => {
            let [own, other] = [busy, choice].map(|c| c.peak_memory_bytes);
            format!("needs {own} instead of {other} on the device that needs most")
        }
        Objective::Bytes => format!("sends {} instead of {}", busy.bytes, choice.bytes),
        Objective::TimeToAccuracy => {
            let [own, other] = [busy, choice].map(|c| c.to_target.as_ref()?.seconds);
            format!("takes {} instead of {}", own?, other?)
        }
    };
    Some(format!("{of}: on all of them, {} {worse}", busy.name()))
}

/// How the numbers were obtained.
fn basis(choice: &Candidate, cluster: &Cluster) -> String {
    let mut basis = match choice.basis {
        Basis::Measured => measured(cluster),
        Basis::Profile => "built-in machine profile".to_owned(),
        Basis::Declared => "declared or estimated statistics".to_owned(),
    };
    let parameters = &choice.parameters;
    if let (Some(alpha), Some(how)) = (parameters.alpha, parameters.alpha_basis) {
        // Writing to a String cannot fail.
        let _ = write!(basis, "; replication factor {alpha:.3} ({how})");
    }
    if let (Some(imbalance), Some(how)) =
        (parameters.edge_imbalance, parameters.edge_imbalance_basis)
    {
        let _ = write!(basis, ", edge imbalance {imbalance:.2} ({how})");
    }
    basis
}

/// Which machine was measured, and when.
fn measured(cluster: &Cluster) -> String {
    let Some(measured) = &cluster.calibration.measured else {
        return "measured".to_owned();
    };
    match measured.machine.as_str() {
        "" => "measured on an unnamed machine".to_owned(),
        machine => format!("measured on {machine}, {}", measured.date),
    }
}

/// Layouts such as `rows, columns x 2, rows`.
fn layouts(list: &[Layout]) -> String {
    let mut runs: Vec<(Layout, usize)> = Vec::new();
    for layout in list {
        match runs.last_mut() {
            Some((last, count)) if last == layout => *count += 1,
            _ => runs.push((*layout, 1)),
        }
    }
    let runs = runs.into_iter().map(|(layout, count)| match count {
        1 => layout.to_string(),
        _ => format!("{layout} x {count}"),
    });
    runs.collect::<Vec<_>>().join(", ")
}
