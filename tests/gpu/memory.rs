//! Copies, streams, events, captured work, and refused calls.

use crate::live;
use gnnc::runtime::device::cuda::{Live, LiveOptions};
use gnnc::runtime::device::gpu::driver::{Address, Driver, DriverError, Event, Launch, Stream};

/// More than the staging slots for copies hold.
const MANY: usize = (17 << 20) + 12_345;

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    let byte = |n: usize| (n as u64).wrapping_mul(seed | 1).wrapping_add(seed >> 8) >> 5;
    (0..length).map(|n| byte(n) as u8).collect()
}

fn read(live: &mut Live, on: Stream, at: Address, bytes: usize) -> Vec<u8> {
    let mut found = vec![0; bytes];
    live.download(on, at, &mut found).unwrap();
    found
}

#[test]
fn bytes_arrive() {
    let Some(mut live) = live("bytes_arrive") else {
        return;
    };
    let stream = live.stream(false).unwrap();
    let [first, second] = [0, 1].map(|_| live.allocate(MANY as u64).unwrap());
    assert!([first, second].iter().all(|at| at.0.is_multiple_of(256)));
    let bytes = pattern(MANY, 77);
    live.upload(stream, &bytes, first).unwrap();
    live.copy(stream, first, second, MANY as u64).unwrap();
    live.clear(stream, second.plus(1000), 3000).unwrap();
    let found = read(&mut live, stream, second, MANY);
    assert_eq!(found[..1000], bytes[..1000]);
    assert!(found[1000..4000].iter().all(|byte| *byte == 0));
    assert!(found[4000..] == bytes[4000..], "the rest differs");
    assert!(
        read(&mut live, stream, first, MANY) == bytes,
        "the source differs"
    );
    live.release(first).unwrap();
    assert_eq!(live.allocated_bytes(), MANY as u64);
    let again = live.release(first).unwrap_err();
    assert!(
        again.to_string().contains("nothing was allocated"),
        "{again}"
    );
}

#[test]
fn bytes_rest_on_the_host() {
    let Some(mut live) = live("bytes_rest_on_the_host") else {
        return;
    };
    let [one, two] = [0, 1].map(|_| live.stream(false).unwrap());
    let event = live.event(false).unwrap();
    let host = live.host_memory(MANY as u64).unwrap();
    let [first, second] = [0, 1].map(|_| live.allocate(MANY as u64).unwrap());
    let bytes = pattern(MANY, 99);
    let mut found = vec![1; MANY];
    live.read_host(host, &mut found).unwrap();
    assert!(found.iter().all(|byte| *byte == 0));
    live.upload(one, &bytes, first).unwrap();
    live.store(one, first, host, MANY as u64).unwrap();
    live.record(event, one).unwrap();
    live.wait(two, event).unwrap();
    live.fetch(two, host, second, MANY as u64).unwrap();
    assert!(read(&mut live, two, second, MANY) == bytes);
    live.read_host(host, &mut found).unwrap();
    assert!(found == bytes);
    live.write_host(&[7; 8], host.plus(16)).unwrap();
    live.fetch(two, host.plus(16), second, 8).unwrap();
    assert_eq!(read(&mut live, two, second, 9)[..8], [7; 8]);
    let beyond = live.fetch(two, host.plus(1), second, MANY as u64);
    let beyond = beyond.unwrap_err().to_string();
    assert!(beyond.contains("were not allocated"), "{beyond}");
    let none = live.host_memory(1 << 50).unwrap_err();
    assert!(matches!(none, DriverError::HostMemory { .. }), "{none}");
}

#[test]
fn too_much_memory_is_refused() {
    let Some(mut live) = live("too_much_memory_is_refused") else {
        return;
    };
    let free = live.free_bytes().unwrap();
    assert!(free > 0);
    let error = live.allocate(1 << 50).unwrap_err();
    assert!(matches!(error, DriverError::Memory { bytes, .. } if bytes == 1 << 50));
    live.allocate(1 << 20).unwrap();
}

#[test]
fn numbers_that_mean_nothing_are_refused() {
    let Some(mut live) = live("numbers_that_mean_nothing_are_refused") else {
        return;
    };
    assert!(live.synchronize(Stream(7)).is_err());
    let stream = live.stream(false).unwrap();
    assert!(live.record(Event(9), stream).is_err());
    let error = live.load("this is no C", &[]).unwrap_err();
    assert!(matches!(error, DriverError::Code(_)), "{error}");
    let text = "extern \"C\" __global__ void f(unsigned long long a) {}";
    let functions = live.load(text, &[("f", 1)]).unwrap();
    let launch = Launch {
        function: functions[0],
        grid: [1, 1],
        block: 32,
        arguments: &[1, 2],
        touched: &[],
    };
    let error = live.launch(stream, &launch).unwrap_err();
    assert!(error.to_string().contains("found 2 arguments"), "{error}");
    let error = live.exchange(stream, &[], &[]).unwrap_err();
    assert!(error.to_string().contains("no other process"), "{error}");
    let options = LiveOptions {
        gpu: 999,
        folders: gnnc::device::library_folders(None),
        ..LiveOptions::default()
    };
    let error = Live::open(&options).err().unwrap();
    assert!(
        error.to_string().contains("found GPU number 999"),
        "{error}"
    );
}

/// Adds 1 to `n` numbers.
const ADD: &str = "extern \"C\" __global__ void add(unsigned *x, unsigned long long n)\n\
    { unsigned long long i = blockIdx.x * 256ull + threadIdx.x; if (i < n) x[i] += 1; }";

/// Work on two streams that wait for each other: executed directly, captured, and replayed.
#[test]
fn captured_work_is_done_again() {
    let Some(mut live) = live("captured_work_is_done_again") else {
        return;
    };
    let numbers = 100_000u64;
    let function = live.load(ADD, &[("add", 2)]).unwrap()[0];
    let [one, two] = [0, 1].map(|_| live.stream(false).unwrap());
    let [before, forth, back] = [0, 1, 2].map(|_| live.event(false).unwrap());
    let [a, b] = [0, 1].map(|_| live.allocate(numbers * 4).unwrap());
    live.clear(one, a, numbers * 4).unwrap();
    live.record(before, one).unwrap();
    let add = |live: &mut Live, on: Stream, at: Address| {
        let launch = Launch {
            function,
            grid: [numbers.div_ceil(256) as u32, 1],
            block: 256,
            arguments: &[at.0, numbers],
            touched: &[],
        };
        live.launch(on, &launch).unwrap();
    };
    // a is incremented on one stream, copied and incremented on the other, and copied back.
    let work = |live: &mut Live| {
        add(live, one, a);
        live.record(forth, one).unwrap();
        live.wait(two, forth).unwrap();
        // The event is not part of the capture, and is complete.
        live.wait(two, before).unwrap();
        live.copy(two, a, b, numbers * 4).unwrap();
        add(live, two, b);
        live.record(back, two).unwrap();
        live.wait(one, back).unwrap();
        live.copy(one, b, a, numbers * 4).unwrap();
    };
    work(&mut live);
    live.capture(one).unwrap();
    let refused = live.upload(one, &[1], a).unwrap_err();
    assert!(refused.to_string().contains("being captured"), "{refused}");
    work(&mut live);
    let captured = live.captured(one).unwrap();
    let sum = |live: &mut Live| read(live, one, a, 4 * numbers as usize);
    let all = |n: u32| n.to_le_bytes().repeat(numbers as usize);
    assert!(sum(&mut live) == all(2), "captured work was done");
    for times in 1..=3 {
        live.replay(one, captured).unwrap();
        assert!(sum(&mut live) == all(2 + 2 * times), "replay {times}");
    }
    work(&mut live);
    assert!(sum(&mut live) == all(10), "work after a replay");
}

#[test]
fn events_know_the_time() {
    let Some(mut live) = live("events_know_the_time") else {
        return;
    };
    let stream = live.stream(false).unwrap();
    let [begin, end] = [0, 1].map(|_| live.event(true).unwrap());
    let at = live.allocate(MANY as u64).unwrap();
    live.record(begin, stream).unwrap();
    for _ in 0..100 {
        live.clear(stream, at, MANY as u64).unwrap();
    }
    live.record(end, stream).unwrap();
    live.synchronize(stream).unwrap();
    let seconds = live.seconds(begin, end).unwrap();
    assert!(seconds > 0.0 && seconds < 1.0, "{seconds} s");
}
