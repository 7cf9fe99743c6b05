//! Errors that the fake device detects.

use super::fake::{Fake, Seen};
use gnnc::runtime::device::gpu::driver::{Address, Driver, Launch, Message, Stream, Touched};
use std::sync::{Arc, Mutex};

const BYTES: u64 = 64;

/// A device with two streams and two buffers; the first buffer is written on the first stream.
fn device() -> (Fake, [Stream; 2], [Address; 2]) {
    let seen: Arc<Mutex<Seen>> = Arc::default();
    let mut device = Fake::new(&seen);
    let streams = [device.stream(false).unwrap(), device.stream(false).unwrap()];
    let memory = [
        device.allocate(BYTES).unwrap(),
        device.allocate(BYTES).unwrap(),
    ];
    device.upload(streams[0], &[7; 64], memory[0]).unwrap();
    (device, streams, memory)
}

fn says<T>(result: Result<T, gnnc::runtime::device::gpu::driver::DriverError>, part: &str) {
    let message = result.err().map(|e| e.to_string()).unwrap_or_default();
    assert!(message.contains(part), "`{message}`, expected `{part}`");
}

#[test]
fn device_finds_what_is_not_ordered() {
    let (mut device, [one, two], [a, b]) = device();
    says(device.copy(two, a, b, BYTES), "race: copy");
    let event = device.event(false).unwrap();
    says(device.wait(two, event), "never recorded");
    device.record(event, one).unwrap();
    device.wait(two, event).unwrap();
    device.copy(two, a, b, BYTES).unwrap();
    // What the other stream still reads must not be overwritten.
    says(device.clear(one, a, BYTES), "race: clear");
}

#[test]
fn device_finds_strange_memory() {
    let (mut device, [one, _], [a, b]) = device();
    says(device.copy(one, b, a, BYTES), "never written");
    says(device.clear(one, a.plus(4), BYTES), "not in memory");
    says(device.copy(one, a, a.plus(4), 8), "overlaps");
    device.release(b).unwrap();
    says(device.clear(one, b, BYTES), "not in memory");
}

#[test]
fn device_finds_what_capturing_forbids() {
    let (mut device, [one, two], [a, b]) = device();
    let [early, fork, join] = [(); 3].map(|()| device.event(false).unwrap());
    device.record(early, one).unwrap();
    device.capture(one).unwrap();
    says(device.upload(one, &[1], a), "not while work is captured");
    says(device.allocate(4), "not while");
    says(device.synchronize(one), "not while");
    says(device.wait(one, early), "not one of the captured work");
    says(device.clear(two, b, BYTES), "none of those");
    device.record(fork, one).unwrap();
    device.wait(two, fork).unwrap();
    device.copy(two, a, b, BYTES).unwrap();
    says(device.captured(one), "have joined");
    device.capture(one).unwrap();
    device.record(fork, one).unwrap();
    device.wait(two, fork).unwrap();
    device.copy(two, a, b, BYTES).unwrap();
    device.record(join, two).unwrap();
    device.wait(one, join).unwrap();
    let work = device.captured(one).unwrap();
    let mut found = [0; 64];
    says(device.download(one, b, &mut found), "never written");
    device.replay(one, work).unwrap();
    device.download(one, b, &mut found).unwrap();
    assert_eq!(found, [7; 64]);
    says(device.wait(one, fork), "never recorded");
}

#[test]
fn device_finds_what_kernels_do_not_say() {
    let (mut device, [one, _], [a, _]) = device();
    let text = "extern \"C\" __global__ void fill(float *to) { to[threadIdx.x % 16u] = 1.0f; }";
    let function = device.load(text, &[("fill", 1)]).unwrap()[0];
    let touched = [Touched {
        at: a,
        bytes: 32,
        written: true,
    }];
    let launch = Launch {
        function,
        grid: [1, 1],
        block: 256,
        arguments: &[a.0],
        touched: &touched,
    };
    says(device.launch(one, &launch), "wrote to 0+3");
    let message = Message {
        peer: 1,
        at: a,
        bytes: 1 << 20,
    };
    says(device.exchange(one, &[message], &[]), "not in memory");
}
