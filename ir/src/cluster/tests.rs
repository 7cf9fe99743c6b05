//! Cluster files, good and bad.

use super::*;
use proptest::prelude::*;

fn refused(text: &str) -> String {
    Cluster::parse(text).unwrap_err().to_string()
}

#[test]
fn profiles_may_be_overridden() {
    let cluster = Cluster::parse(
        "version = 1\nnodes = 2\ndevices_per_node = 4\n[device]\nprofile = 'a5000'\nmemory_bytes = 1e9\n\
         [inside]\nprofile = 'pcie4'\nlatency = 0\n[between]\nprofile = '200gb'\nshared_by = 'rank'\n\
         [calibration.efficiency]\nspmm = { memory = 0.25 }",
    )
    .unwrap();
    assert_eq!((cluster.name.as_str(), cluster.devices()), ("a5000", 8));
    assert_eq!(
        (cluster.device.memory, cluster.device.flops),
        (Bytes(1_000_000_000), 27.8e12)
    );
    assert_eq!(
        (cluster.inside.latency, cluster.between.shared_by),
        (Seconds(0.0), SharedBy::Rank)
    );
    let spmm = cluster.calibration.of(KernelClass::Spmm);
    assert_eq!(
        spmm,
        Efficiency {
            compute: 0.3,
            memory: 0.25,
            cached: 2.5,
        }
    );
    assert_eq!([0, 3, 4, 7].map(|rank| cluster.node_of(rank)), [0, 0, 1, 1]);
}

#[test]
fn the_examples_are_read() {
    let devices = |text: &str| Cluster::parse(text).map(|cluster| cluster.devices());
    let boxes = include_str!("../../../examples/clusters/two-a5000-boxes.toml");
    let described = include_str!("../../../examples/clusters/described.toml");
    let cores = include_str!("../../../examples/clusters/four-cores.toml");
    assert_eq!(
        [boxes, described, cores].map(devices),
        [Ok(8), Ok(8), Ok(4)]
    );
}

#[test]
fn what_is_written_is_read_back() {
    let devices = DEVICES.iter().map(|row| row.name);
    for name in CLUSTERS.iter().copied().chain(devices) {
        let cluster = Cluster::named(name)
            .unwrap()
            .resized(None, Some(3))
            .unwrap();
        assert_eq!(
            Cluster::parse(&cluster.to_toml()).unwrap(),
            cluster,
            "{name}"
        );
        let json = serde_json::to_string(&cluster).unwrap();
        assert_eq!(serde_json::from_str::<Cluster>(&json).unwrap(), cluster);
    }
}

/// Names may hold anything that a TOML string may hold.
#[test]
fn names_are_written_as_toml() {
    let described = include_str!("../../../examples/clusters/described.toml");
    let name = r#""a \"b\" \\ \u0007 \u007F \u200b é \n""#;
    let odd = described
        .replace("\"described\"", name)
        .replace("\"bridge\"", name)
        .replace("tf32", "\"a b\\u0001\"");
    let cluster = Cluster::parse(&odd).unwrap();
    assert_eq!(cluster.name, "a \"b\" \\ \u{7} \u{7f} \u{200b} é \n");
    assert_eq!(Cluster::parse(&cluster.to_toml()), Ok(cluster));
}

/// Whole numbers in a cluster file have 63 bits, so that every number read can be written and
/// read again.
#[test]
fn more_memory_than_there_is_is_refused() {
    let described = include_str!("../../../examples/clusters/described.toml");
    let with = |bytes: &str| described.replace("34_359_738_368", bytes);
    assert_eq!(
        refused(&with("1e19")),
        "`device.memory_bytes` is 10000000000000000000, expected at most 1000000000000000000; \
         write the bytes of one device, or of one node's host memory"
    );
    let host = "\n[host]\nmemory_bytes = 1e300\nbandwidth = 1e9\nlatency = 0.0\n";
    assert!(refused(&format!("{described}{host}")).starts_with("`host.memory_bytes` is"));
    let most = Cluster::parse(&with("1e18")).unwrap();
    assert_eq!(Cluster::parse(&most.to_toml()), Ok(most));
}

#[test]
fn messages_say_what_to_do() {
    let device = "device.profile = 'T4'\n";
    let says = |text: &str, wanted: &str| {
        let found = refused(text);
        assert!(found.contains(wanted), "{found:?} lacks {wanted:?}");
    };
    says("", "`version` is missing; write `version = 1`");
    says(
        "version = 2",
        "says version = 2; this gnnc reads version = 1",
    );
    says(
        "version = 'x'",
        "says version = \"x\"; this gnnc reads version = 1",
    );
    says("version = 1\nversion", "line 2, column 8");
    says("version = 1", "`device` is missing");
    says(
        &format!("version = 1\n{device}node = 2"),
        "unknown key `node`",
    );
    says(
        &format!("version = 1\n{device}node = 2"),
        "did you mean `nodes`?",
    );
    says(
        &format!("version = 1\n{device}nodes = 0"),
        "`nodes` is 0, expected a number above 0",
    );
    says(&format!("version = 1\n{device}nodes = -3"), "`nodes` is -3");
    says(
        &format!("version = 1\n{device}nodes = 2.5"),
        "`nodes` is 2.5, expected a whole number",
    );
    says(
        &format!("version = 1\n{device}nodes = 1e12"),
        "found 1000000000000 devices, expected at most",
    );
    says(
        &format!("version = 1\n{device}nodes = -2.0"),
        "`nodes` is -2",
    );
    says(
        &format!("version = 1\n{device}nodes = 9999999999"),
        "found 9999999999 devices, expected at most",
    );
    says(
        &format!(
            "version = 1\n{device}nodes = 60000\ndevices_per_node = 60000\ninside.profile = 'pcie3'\nbetween.profile = '10gb'"
        ),
        "found 3600000000 devices, expected at most",
    );
    says(
        &format!("version = 1\n{device}device.flops = -1"),
        "`device.flops` is -1, expected a number above 0",
    );
    says(
        &format!("version = 1\n{device}device.flops = nan"),
        "`device.flops` is NaN",
    );
    says(
        &format!("version = 1\n{device}device.flops = inf"),
        "`device.flops` is inf",
    );
    says(
        &format!("version = 1\n{device}device.flops = '3'"),
        "`device.flops` is \"3\", expected a number",
    );
    says(
        &format!("version = 1\n{device}nodes = 2"),
        "`between` is missing",
    );
    says("version = 1\ndevice = 3", "`device` is 3, expected a table");
    says(
        "version = 1\ndevice.profile = 'H1000'",
        "did you mean `H100`?",
    );
    says(
        "version = 1\ndevice.kind = 'tpu'",
        "unknown key `device.kind = tpu`; expected one of `cpu`, `gpu`",
    );
    says(
        "version = 1\ndevice.kind = 'gpu'",
        "`device.memory_bytes` is missing",
    );
    says(
        &format!("version = 1\n{device}inside.profile = 'pcie6'"),
        "did you mean `pcie",
    );
    says(
        &format!("version = 1\n{device}inside.latency = 1"),
        "is missing",
    );
    says(
        &format!("version = 1\n{device}inside.latency = -1"),
        "is missing",
    );
    says(
        &format!("version = 1\n{device}calibration.spread = 0.5"),
        "is 0.5, expected a factor of 1 or more",
    );
    says(
        &format!("version = 1\n{device}calibration.efficiency.spmm.memory = 0"),
        "`calibration.efficiency.spmm.memory` is 0",
    );
    says(
        &format!("version = 1\n{device}calibration.efficiency.smpm = 0"),
        "did you mean `spmm`?",
    );
}

#[test]
fn named_clusters_have_any_number_of_devices() {
    assert_eq!(Cluster::named("H100x8").unwrap().devices(), 8);
    assert_eq!(Cluster::named("a100").unwrap().device.name, "A100-80");
    assert_eq!(Cluster::named("a100-40x16").unwrap().devices(), 16);
    assert_eq!(Cluster::named("cpu").unwrap().device.kind, DeviceKind::Cpu);
    assert!(Cluster::named("h100x0").is_err());
    assert!(Cluster::named("x").is_err());
    let error = Cluster::named("h10x8").unwrap_err().to_string();
    assert!(error.contains("did you mean `h100x8`?"), "{error}");
}

#[test]
fn resizing_fills_nodes() {
    let h100 = || Cluster::named("h100x8").unwrap();
    let shape = |c: Result<Cluster, _>| c.map(|c| (c.nodes, c.devices_per_node));
    assert_eq!(shape(h100().resized(Some(64), None)), Ok((8, 8)));
    assert_eq!(shape(h100().resized(Some(4), None)), Ok((1, 4)));
    assert_eq!(shape(h100().resized(Some(16), Some(4))), Ok((4, 4)));
    assert_eq!(shape(h100().resized(None, Some(4))), Ok((4, 8)));
    assert_eq!(
        shape(h100().resized(Some(9), Some(2))),
        Err(ClusterError::Uneven {
            devices: 9,
            nodes: 2
        })
    );
    assert_eq!(
        shape(Cluster::named("cpu").unwrap().resized(Some(5), None)),
        Ok((1, 5))
    );
    assert!(h100().resized(Some(0), None).is_err());
    assert!(h100().resized(Some(8), Some(0)).is_err());
    assert!(h100().resized(None, Some(u32::MAX)).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in ".{0,200}") {
        let _ = Cluster::parse(&text);
        let _ = Cluster::named(&text);
        let _ = Cluster::inline(&text);
    }

    #[test]
    fn no_line_panics(text in "((nodes|gpus|gpu|memory|link|host|price|name)=[a0-9.-]{0,9}(t4|GiB|25gb)? ?){0,6}") {
        let _ = Cluster::inline(&text);
    }

    #[test]
    fn no_edit_of_a_good_file_panics(at in 0usize..1500, what in "[-\\[\\]={}.\"0-9a-z\n]{0,6}") {
        let mut text = Cluster::named("h100x8").unwrap().to_toml();
        let at = at.min(text.len());
        text.insert_str(at, &what);
        if let Ok(cluster) = Cluster::parse(&text) {
            prop_assert_eq!(cluster.check(), Ok(()));
        }
    }
}

/// The host comes from the device's profile or from the file, or is unknown.
#[test]
fn hosts_are_known_or_described() {
    let file = |lines: &str| Cluster::parse(&format!("version = 1\n{lines}"));
    let h100 = file("device.profile = \"H100\"").unwrap().host.unwrap();
    assert_eq!((h100.bandwidth, h100.memory.0), (55e9, 2 << 40));
    let told = "device.profile = \"A100\"\n[host]\nbandwidth = 1e10\nlatency = 1e-6\n";
    let told = file(told).unwrap();
    let host = told.host.unwrap();
    assert_eq!((host.bandwidth, host.memory.0), (1e10, 2 << 40));
    // Its cores draw batches, shared by the devices of a node; those of processors draw for themselves.
    assert_eq!(host.cores, 128);
    let few = file(
        "device.profile = \"A100\"\nhost.cores = 9\ndevices_per_node = 4\ninside.profile = \"pcie4\"",
    );
    let few = few.unwrap();
    assert_eq!([1, 2, 4, 8].map(|ranks| few.samplers(ranks)), [8, 4, 2, 2]);
    assert_eq!(Cluster::named("a100x1").unwrap().samplers(1), 16);
    assert_eq!(Cluster::named("cpu").unwrap().samplers(1), 0);
    assert_eq!(Cluster::parse(&told.to_toml()).unwrap(), told);
    assert_eq!(Cluster::named("cpu").unwrap().host, None);
    let own = "[device]\nname = \"own\"\nkind = \"gpu\"\nflops = 1e12\nmemory_bandwidth = 1e11\n\
               memory_bytes = 1e9\nlaunch_floor = 1e-6\n";
    assert_eq!(file(own).unwrap().host, None);
    for (lines, part) in [
        ("[host]\nbandwidth = 1e10\n", "host.memory_bytes"),
        ("[host]\nmemory_bytes = 1e10\n", "host.bandwidth"),
        ("[host]\nmemory_bytes = 0\n", "host.memory_bytes"),
        ("[host]\nspeed = 1\n", "host.speed"),
    ] {
        let error = file(&format!("{own}{lines}")).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn devices_have_a_source_and_are_found_by_name() {
    for row in DEVICES {
        let one = Cluster::named(&row.name.to_lowercase()).unwrap();
        assert_eq!((one.device.name.as_str(), one.devices()), (row.name, 1));
        let four = Cluster::named(&format!("{}x4", row.name)).unwrap();
        assert_eq!(four.devices_per_node, 4, "{}", row.name);
        assert!(!row.source.is_empty(), "{}", row.name);
        assert!(one.host.is_some() || one.device.kind == DeviceKind::Cpu);
    }
    assert_eq!(Cluster::named("h100-sxmx8").unwrap().device.name, "H100");
    assert!(Cluster::named("rtx4091").is_err());
}

#[test]
fn a_line_describes_what_a_file_describes() {
    let line = Cluster::inline(
        "name=lab nodes=2 gpus=4,gpu=A5000 memory=20GiB link=25gb host=64GiB cores=24 price=0.5",
    )
    .unwrap();
    let file = "version = 1\nname = 'lab'\nnodes = 2\ndevices_per_node = 4\nprice_per_hour = 0.5\n\
                device = { profile = 'a5000', memory_bytes = 21474836480 }\ninside.profile = 'pcie4'\n\
                between.profile = '25gb'\nhost.memory_bytes = 68719476736\nhost.cores = 24";
    assert_eq!(line, Cluster::parse(file).unwrap());
    assert_eq!(Cluster::parse(&line.to_toml()).as_ref(), Ok(&line));
    assert_eq!(line.price(Seconds(1800.0)), Some(2.0));
    assert_eq!(Cluster::named("cpu").unwrap().price(Seconds(1.0)), None);
    // What is left out is as in the built-in cluster.
    for row in DEVICES {
        let short = Cluster::inline(&format!("gpu={} gpus=4", row.name)).unwrap();
        let named = Cluster::named(&format!("{}x4", row.name)).unwrap();
        let name = named.name.clone();
        assert_eq!(Cluster { name, ..short }, named);
    }
}

#[test]
fn a_wrong_line_says_what_was_expected() {
    let says = |line: &str, wanted: &str| {
        let found = Cluster::inline(line).unwrap_err().to_string();
        assert!(found.contains(wanted), "{found:?} lacks {wanted:?}");
    };
    says("nodes=2", "`gpu` is missing; name a device, such as gpu=");
    says(
        "gpu=a5000 node=2",
        "unknown key `node`; expected one of `nodes`, `gpus`",
    );
    says("gpu=a5000 node=2", "did you mean `nodes`?");
    says(
        "gpu=a5001",
        "unknown device profile `a5001`; expected one of",
    );
    says(
        "gpu=a5000 link=25",
        "unknown link profile `25`; expected one of",
    );
    says(
        "gpu=a5000 gpus=0",
        "`gpus` is `0`, expected a number from 1 to 65536",
    );
    says("gpu=a5000 gpus", "`gpus` is ``, expected a number");
    says("gpu=a5000 gpu=t4", "`gpu` is given twice");
    says(
        "gpu=a5000 memory=24gb",
        "`memory` is `24gb`, expected a number above 0 with a unit",
    );
    says(
        "gpu=a5000 price=-1",
        "`price` is `-1`, expected a number above 0",
    );
    says("gpu=a5000 nodes=65536 gpus=2", "found 131072 devices");
    says("gpu=a5000 memory=1e19", "expected at most");
    says("gpu=", "`gpu` is ``, expected a name");
    says("gpu=a5000 inside", "`inside` is ``, expected a name");
}

/// Software adds to what the device and the links take, and is written and read back.
#[test]
fn links_say_what_they_cost_a_processor() {
    let file = |more: &str| {
        let text = format!("version = 1\nnodes = 2\ndevice.profile = \"cpu-core\"\n{more}");
        Cluster::parse(&text)
    };
    let told = file("[between]\nprofile = \"10gb\"\nprocessor = 3e-9\n").unwrap();
    assert_eq!(told.handling_of(&told.between), 3e-9);
    assert_eq!(Cluster::parse(&told.to_toml()).unwrap(), told);
    let json = serde_json::to_string(&told).unwrap();
    assert_eq!(serde_json::from_str::<Cluster>(&json).unwrap(), told);
    // Files and plans of links that cost nothing do not name it.
    let mut free = told;
    free.between.processor = Seconds(0.0);
    assert!(!free.to_toml().contains("processor"));
    assert!(!serde_json::to_string(&free).unwrap().contains("processor"));
    free.between.processor = Seconds(-1.0);
    let said = free.check().unwrap_err().to_string();
    assert!(said.contains("between.processor"), "{said}");
    // Messages of GPUs take nothing from what they compute.
    let mut gpus = Cluster::named("h100x8").unwrap();
    gpus.inside.processor = Seconds(3e-9);
    assert_eq!(gpus.handling_of(&gpus.inside), 0.0);
}

#[test]
fn software_is_named_or_described() {
    let file =
        |more: &str| Cluster::parse(&format!("version = 1\ndevice.profile = \"A100\"\n{more}"));
    let own = file("").unwrap();
    assert!(own.software.is_own() && !own.to_toml().contains("software"));
    assert_eq!(own.launch_floor(), own.device.launch_floor.0);
    let eager = file("software.profile = \"Eager\"").unwrap();
    assert_eq!(eager.launch_floor(), 20e-6);
    let apart = eager.latency_of(&eager.inside) - eager.inside.latency.0;
    assert!((apart - 20e-6).abs() < 1e-12, "{apart}");
    assert_eq!(Cluster::parse(&eager.to_toml()).unwrap(), eager);
    let line = Cluster::inline("gpu=A100 software=eager").unwrap();
    assert_eq!(line.software, eager.software);
    let told = file("[software]\nname = \"mine\"\nlaunch = 1e-6\n").unwrap();
    // The device is slower than that.
    assert_eq!(told.launch_floor(), told.device.launch_floor.0);
    assert_eq!(
        (told.software.name.as_str(), told.software.message),
        ("mine", Seconds(0.0))
    );
    for (wrong, named) in [
        ("software.profile = \"eagre\"", "did you mean `eager`"),
        ("software.launch = -1.0", "software.launch"),
        ("software.speed = 1", "software.speed"),
    ] {
        let said = file(wrong).unwrap_err().to_string();
        assert!(said.contains(named), "{said}");
    }
}
