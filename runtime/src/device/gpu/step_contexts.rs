//! Learning rates, step counts and keys of dropout masks: the numbers kernels read anew in every
//! run, at fixed addresses.

use super::driver::{Address, Driver, DriverError, Stream};
use super::state::bytes;
use crate::step_context::StepContext;
use gnnc_ir::graph::op::Site;
use gnnc_ir::program::ScalarRef;
use std::collections::BTreeMap;

/// Mask sites, each with the iteration index of the enclosing loop.
type Sites = Vec<(Site, u32)>;

/// The numbers of all launches.
#[derive(Clone, Default)]
pub(super) struct Moments {
    /// Positions of each list of sites among the keys.
    sites: BTreeMap<Sites, usize>,
    keys: Sites,
    /// Lists and their positions among the scalars.
    lists: Vec<(Vec<ScalarRef>, usize)>,
    scalars: Vec<ScalarRef>,
    at: Address,
}

impl Moments {
    /// Records what a launch reads in one iteration.
    pub(super) fn add(&mut self, scalars: &[ScalarRef], sites: &[Site], iteration: u32) {
        if !self.lists.iter().any(|(list, _)| list == scalars) {
            self.lists.push((scalars.to_vec(), self.scalars.len()));
            self.scalars.extend_from_slice(scalars);
        }
        let sites = of(sites, iteration);
        if !self.sites.contains_key(&sites) {
            self.keys.extend_from_slice(&sites);
            self.sites
                .insert(sites.clone(), self.keys.len() - sites.len());
        }
    }

    /// Allocates memory, after all launches were recorded.
    pub(super) fn allocate(&mut self, driver: &mut dyn Driver) -> Result<(), DriverError> {
        let bytes = 8 * self.keys.len() + 4 * self.scalars.len();
        self.at = driver.allocate(bytes.max(8) as u64)?;
        Ok(())
    }

    /// Address of a launch's scalars.
    pub(super) fn scalars(&self, list: &[ScalarRef]) -> Address {
        let found = self.lists.iter().find(|(known, _)| known == list);
        let place = found.map_or(0, |(_, place)| *place);
        self.at.plus((8 * self.keys.len() + 4 * place) as u64)
    }

    /// Address of a launch's keys.
    pub(super) fn keys(&self, sites: &[Site], iteration: u32) -> Address {
        let place = self.sites.get(&of(sites, iteration));
        self.at.plus(8 * place.copied().unwrap_or(0) as u64)
    }

    /// Copies the numbers of a run to the device.
    pub(super) fn upload(
        &self,
        driver: &mut dyn Driver,
        on: Stream,
        step_context: &StepContext,
    ) -> Result<(), DriverError> {
        let StepContext { seed, draw, .. } = *step_context;
        let key = |(site, iteration): &(Site, u32)| site.key(seed, draw, *iteration);
        let keys: Vec<u64> = self.keys.iter().map(key).collect();
        let scalars = self
            .scalars
            .iter()
            .map(|scalar| step_context.scalar(*scalar));
        let scalars: Vec<f32> = scalars.collect();
        let all = [bytes(&keys), bytes(&scalars)].concat();
        match all.is_empty() {
            true => Ok(()),
            false => driver.upload(on, &all, self.at),
        }
    }
}

fn of(sites: &[Site], iteration: u32) -> Sites {
    sites.iter().map(|site| (*site, iteration)).collect()
}
