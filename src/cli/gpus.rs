//! `gnnc gpus`: the devices, clusters and links that plans know by name.

use super::output::{Answer, Output};
use super::text::{Table, facts};
use clap::Args;
use gnnc::ir::cluster::{CLUSTERS, Cluster, DEVICES, LINKS};
use gnnc::planner::report::short_bytes;
use serde_json::{Value, json};

/// Arguments of `gpus`.
#[derive(Args)]
pub struct Gpus {}

/// A built-in device on a node of its own.
struct Profile {
    machine: Cluster,
    source: &'static str,
    trains: bool,
}

impl Gpus {
    /// Lists the built-in devices, clusters and links.
    pub fn run(&self, out: &Output) -> Answer {
        let profiles = DEVICES.iter().map(|row| {
            Cluster::named(row.name).map(|machine| Profile {
                machine,
                source: row.source,
                trains: row.trains,
            })
        });
        let profiles: Vec<Profile> = profiles
            .collect::<Result<_, _>>()
            .map_err(gnnc::Error::from)?;
        let links = LINKS.iter().map(|(name, gigabytes_per_second, ..)| {
            json!({ "name": name, "bandwidth": gigabytes_per_second * 1e9 })
        });
        out.report(
            || text(&profiles),
            &json!({
                "devices": profiles.iter().map(value).collect::<Vec<Value>>(),
                "clusters": CLUSTERS,
                "links": links.collect::<Vec<Value>>(),
            }),
        )
    }
}

fn value(profile: &Profile) -> Value {
    let Cluster {
        device,
        inside,
        between,
        host,
        ..
    } = &profile.machine;
    json!({
        "name": device.name,
        "memory_bytes": device.memory,
        "memory_bandwidth": device.memory_bandwidth,
        "flops": device.flops,
        "tensor_flops": device.tensor_flops,
        "inside": inside,
        "between": between,
        "host": host,
        "trains": profile.trains,
        "source": profile.source,
    })
}

fn text(profiles: &[Profile]) -> String {
    let mut table = Table::new(1, 0);
    let head = [
        "name",
        "memory",
        "GB/s",
        "FP32",
        "TF32",
        "in a node",
        "between",
        "host",
    ];
    table.row(head);
    for Profile { machine, .. } in profiles {
        let device = &machine.device;
        let tera = |flops: f64| format!("{} T", flops / 1e12);
        let tensor = device.tensor_flops.get("tf32").copied();
        table.row([
            device.name.clone(),
            short_bytes(device.memory.0),
            (device.memory_bandwidth / 1e9).to_string(),
            tera(device.flops),
            tensor.map_or_else(|| "-".to_owned(), tera),
            machine.inside.name.clone(),
            machine.between.name.clone(),
            machine
                .host
                .map_or_else(|| "-".to_owned(), |host| short_bytes(host.memory.0)),
        ]);
    }
    let links: Vec<String> = LINKS
        .iter()
        .map(|(name, gigabytes_per_second, ..)| format!("{name} {gigabytes_per_second}"))
        .collect();
    let planned = profiles.iter().filter(|profile| !profile.trains);
    let planned: Vec<&str> = planned.map(|p| p.machine.device.name.as_str()).collect();
    let notes = facts(&[
        (
            "peaks",
            "bytes per second of memory; operations per second in FP32 and, dense, in TF32: \
             numbers of data sheets, which --format json names; host: memory of a node"
                .to_owned(),
        ),
        (
            "clusters",
            format!(
                "{}, or a name above in lower case, x, and any number, such as l40sx8",
                CLUSTERS.join(", ")
            ),
        ),
        ("links", format!("GB/s each way: {}", links.join(", "))),
        (
            "training",
            format!(
                "on processors and NVIDIA GPUs; {} can be planned for, but gnnc does not train on it",
                planned.join(", ")
            ),
        ),
    ]);
    format!("{}\n{notes}", table.lines())
}
