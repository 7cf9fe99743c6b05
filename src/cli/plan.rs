//! `gnnc plan`: the best placement of a model on a cluster.

use super::cache::say_refused;
use super::files::{replace, writable};
use super::html::{HtmlArgs, Page};
use super::inputs::ModelArgs;
use super::machine::{MachineArgs, warn};
use super::output::{Answer, Failure, NOTHING_CHOSEN, Output};
use super::pilot::{fits, read};
use super::text::width;
use clap::Args;
use gnnc::pictures::pictured;
use gnnc::planner::report::{self, View};
use gnnc::{PlanOptions, Planner};
use std::path::PathBuf;

/// Most ranks in a trace: a page with more is unreadable.
const TRACED: u32 = 16;

/// Arguments of `plan`.
#[derive(Args)]
pub struct PlanCommand {
    #[command(flatten)]
    model: ModelArgs,
    #[command(flatten)]
    machines: MachineArgs,
    /// Look only for the best K candidates. By default all are priced, and the best five are listed.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    top: Option<u32>,
    /// List all candidates.
    #[arg(long, conflicts_with = "top")]
    all: bool,
    /// Show where the time of each candidate goes, the reasons for its rank, and what is not possible.
    #[arg(long)]
    why: bool,
    /// What runs of the model told (a file of `gnnc pilot`), for --objective time-to-accuracy.
    #[arg(long, value_name = "FILE")]
    pilot: Option<PathBuf>,
    /// Write the plan to this file as JSON; `gnnc train FILE` runs it.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the predicted timeline of the ranks to this file, for chrome://tracing or Perfetto.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    html: HtmlArgs,
}

impl PlanCommand {
    /// Plans, writes the files and prints the plan.
    pub fn run(&self, out: &Output) -> Answer {
        for (path, what) in [(&self.out, "plan"), (&self.trace, "trace")] {
            if let Some(path) = path {
                writable(path, what)?;
            }
        }
        self.html.fits()?;
        let mut options = self.options(out)?;
        options.pilot = read(self.pilot.as_deref(), options.objective)?;
        warn(options.pin.knobs.skip, out);
        let loaded = self.model.load(out)?;
        if let (Some(pilot), Some(path)) = (&options.pilot, &self.pilot) {
            fits(pilot, path, &loaded)?;
        }
        let compiled = self.html.compile(&loaded)?;
        let planner = Planner::new(&loaded, &compiled, &options)?;
        say_refused(options.cache.as_ref(), out);
        planner.check_pins()?;
        let mut plan = planner.plan();
        plan.source = Some(self.model.source(&loaded.model));
        let json = report::json(&plan).map_err(gnnc::Error::from)?;
        if let Some(path) = &self.out {
            replace(path, json.as_bytes())?;
        }
        if let (Some(path), Some(best)) = (&self.trace, plan.candidates.first()) {
            let trace = planner.timeline(plan.choice().unwrap_or(best), TRACED)?;
            replace(path, trace.chrome_json().as_bytes())?;
        }
        if let Some(path) = self.html.file() {
            let mut page = Page::new("plan", &loaded);
            page.plan(&plan, &compiled);
            let number = plan.chosen.unwrap_or(0);
            if let Some(best) = plan.candidates.get(number) {
                match pictured(&planner, best) {
                    Ok(found) => page.pictured(&found, number),
                    Err(error) => page.leave_out(format!("Its pictures are left out: {error}.")),
                }
            }
            page.write(path)?;
        }
        if out.is_json() {
            out.text(&json)?;
        } else {
            let few = View::default().most;
            let view = View {
                width: width(),
                most: self
                    .top
                    .map(|top| top as usize)
                    .or(few)
                    .filter(|_| !self.all),
                why: self.why,
            };
            out.text(&report::text(&plan, &view))?;
        }
        match plan.chosen {
            Some(_) => Ok(()),
            None => Err(Failure::Reported(NOTHING_CHOSEN)),
        }
    }

    fn options(&self, out: &Output) -> Result<PlanOptions, Failure> {
        Ok(PlanOptions {
            top: self.top.map(|top| top as usize),
            ..self.machines.options(out)?
        })
    }
}
