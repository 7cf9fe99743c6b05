//! The best candidate for each of several numbers of devices.

use super::counted::{Counted, Draws};
use super::{PlanOptions, Planner};
use crate::{Compiled, Error, Loaded};
use gnnc_ir::plan::Candidate;
use serde::Serialize;

/// The best candidate for one number of devices.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SweepPoint {
    /// Number of devices.
    pub devices: u32,
    /// The best candidate; `None` if nothing fits or can run.
    pub choice: Option<Candidate>,
    /// Why it is the best, or why there is none.
    pub reason: String,
}

/// The best candidate for each number of devices, on a cluster of the same kind.
///
/// # Errors
/// As [`plan`](crate::plan).
pub fn sweep(
    loaded: &Loaded,
    compiled: &Compiled,
    options: &PlanOptions,
    devices: &[u32],
) -> Result<Vec<SweepPoint>, Error> {
    let at = |devices: u32| {
        let cluster = options.cluster.clone().resized(Some(devices), None);
        cluster.map(|cluster| PlanOptions {
            cluster,
            top: Some(1),
            ..options.clone()
        })
    };
    let all: Vec<_> = devices.iter().map(|&devices| at(devices)).collect();
    let planner = |options| Planner::unmeasured(loaded, compiled, options);
    let planners: Vec<_> = all
        .iter()
        .map(|options| options.as_ref().map(planner))
        .collect();
    for planner in planners.iter().flatten() {
        planner.follow_pins()?;
    }
    let mut counted = Counted::on(&options.cluster, &options.pin.knobs);
    if let Some(data) = &loaded.data {
        let divisions = planners.iter().flatten().flat_map(|p| p.divisions(data));
        let mut draws = Draws::default();
        for planner in planners.iter().flatten() {
            let (more, before) = (planner.draws(), std::mem::take(&mut draws.on));
            draws = more;
            draws.on.extend(before);
        }
        counted.count(
            data,
            compiled,
            &divisions.collect(),
            &draws,
            options.cache.as_ref(),
        )?;
    }
    let mut points = Vec::new();
    let mut workload = loaded.workload.clone();
    for (&devices, planner) in devices.iter().zip(planners) {
        let mut planner = match planner {
            Ok(planner) => planner,
            Err(error) => {
                points.push(SweepPoint {
                    devices,
                    choice: None,
                    reason: error.to_string(),
                });
                continue;
            }
        };
        planner.workload = workload;
        planner.measure(&mut counted)?;
        let (plan, why) = (planner.plan(), planner.why_none());
        // Later device counts reuse these partitions.
        workload = planner.workload;
        let first = plan.choice().or(plan.candidates.first());
        let rejected = plan.rejected.first().map(|r| r.reason.clone());
        let reason = match first {
            Some(first) => first.reason.clone(),
            None => rejected.unwrap_or(why),
        };
        points.push(SweepPoint {
            devices,
            reason,
            choice: plan.choice().cloned(),
        });
    }
    Ok(points)
}
