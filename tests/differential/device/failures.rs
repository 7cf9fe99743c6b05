//! A device that fails at any given call.

use super::Again;
use super::case;
use super::fake::{Fake, Seen};
use super::runs::options;
use crate::models::GCN;
use gnnc::ir::plan::Placement;
use gnnc::runtime::RuntimeError;
use std::sync::{Arc, Mutex};

/// Makes every kind of request to the device.
fn all(again: &Again, seen: &Arc<Mutex<Seen>>) -> Result<(), RuntimeError> {
    let mut session = again.try_on_device(Box::new(Fake::new(seen)))?;
    let run = |session: &mut gnnc::runtime::Session| -> Result<(), RuntimeError> {
        for _ in 0..3 {
            session.epoch()?;
        }
        session.evaluate()?;
        session.logits()?;
        let parameters = session.parameters()?;
        session.set_parameters(&parameters)
    };
    let Err(first) = run(&mut session) else {
        return Ok(());
    };
    // The session does not recover.
    let RuntimeError::Rank(first) = first else {
        return Err(first);
    };
    for again in [
        session.epoch().err(),
        session.evaluate().err(),
        session.parameters().err(),
    ] {
        assert!(
            matches!(&again, Some(RuntimeError::Rank(again)) if *again == first),
            "{again:?}, first {first:?}"
        );
    }
    Err(first.into())
}

#[test]
fn device_failures_are_reported() {
    let case = case(GCN, true);
    let again = Again::new(&case, &options(Placement::Graph, 2));
    let seen: Arc<Mutex<Seen>> = Arc::default();
    all(&again, &seen).unwrap();
    let calls = seen.lock().unwrap().calls;
    assert!(calls > 500, "{calls}");
    // A sample of calls that covers every kind.
    for n in (1..=calls).step_by(11) {
        let seen: Arc<Mutex<Seen>> = Arc::default();
        seen.lock().unwrap().fails = Some(n);
        let error = all(&again, &seen).unwrap_err().to_string();
        let told = format!("call {n} was told to");
        assert!(error.contains(&told), "{n}: {error}");
    }
}

/// NaN and infinity are not kept as history.
#[test]
fn device_histories_are_finite() {
    let case = crate::pipeline::case(crate::pipeline::MODELS[0]);
    let mut options = options(Placement::Pipeline, 2);
    options.knobs.chunks = Some(3);
    options.knobs.interval = Some(1);
    let again = Again::new(&case, &options);
    let fail = |mut session: gnnc::runtime::Session| {
        session.epoch().unwrap();
        let mut parameters = session.parameters().unwrap();
        for tensor in &mut parameters {
            tensor.values.fill(1e38);
        }
        session.set_parameters(&parameters).unwrap();
        session.epoch().unwrap_err().to_string()
    };
    let here = fail(again.on_device(&Arc::default()));
    assert!(
        here.contains("would store a value that is not finite in epoch 2"),
        "{here}"
    );
    assert!(fail(again.on_processor()).contains("would store a value"));
}

/// In a ring, every stage may be sending while it must receive. Only within one process is
/// there memory for messages that nobody has received yet.
#[test]
fn device_stages_of_several_processes_are_no_ring() {
    let case = crate::pipeline::case(crate::pipeline::MODELS[0]);
    let error = |virtual_stages| {
        let mut options = options(Placement::Pipeline, 2);
        options.knobs.virtual_stages = Some(virtual_stages);
        let again = Again::new(&case, &options);
        let alone = Box::new(Fake::among(&Arc::default(), 1, &Arc::default()));
        again.on_device_of(1, alone).err().map(|e| e.to_string())
    };
    assert_eq!(error(1), None);
    let error = error(2).unwrap();
    for part in [
        "each of 2 stages has several virtual stages",
        "use --virtual-stages 1",
    ] {
        assert!(error.contains(part), "{error}");
    }
}
