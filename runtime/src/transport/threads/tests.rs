//! Messages between threads.

use super::*;

#[test]
fn memory_is_what_a_rank_has_sent_before_it_finishes() {
    let mut ends = Threads::connect(2);
    for period in 0..4 {
        for end in &mut ends {
            for tag in [0, 1] {
                let to = 1 - end.rank();
                end.send(to, tag, 10, &mut |message| message.fill(0.0))
                    .unwrap();
            }
        }
        for end in &mut ends {
            for tag in [0, 1] {
                let from = 1 - end.rank();
                end.recv(from, tag, 10, &mut |_| ()).unwrap();
            }
            assert_eq!(end.memory_bytes(), 80, "period {period}");
        }
    }
}

#[test]
fn messages_arrive_in_order_and_are_counted() {
    let mut ends = Threads::connect(2);
    let mut right = ends.pop().unwrap();
    let mut left = ends.pop().unwrap();
    for n in 0..3 {
        left.send(1, 0, n, &mut |message| message.fill(n as f32))
            .unwrap();
    }
    let mut seen = Vec::new();
    for n in 0..3 {
        right
            .recv(0, 0, n, &mut |message| seen.extend_from_slice(message))
            .unwrap();
    }
    assert_eq!(seen, [1.0, 2.0, 2.0]);
    assert_eq!((left.bytes_sent(), right.bytes_sent()), (12, 0));
    // The sender has finished none of them.
    assert_eq!((left.memory_bytes(), right.memory_bytes()), (12, 0));
    left.send(1, 0, 1, &mut |_| {}).unwrap();
    let wrong = right.recv(0, 0, 2, &mut |_| {});
    assert_eq!(
        wrong,
        Err(TransportError::Length {
            from: 0,
            found: 1,
            expected: 2
        })
    );
    assert!(matches!(
        left.send(2, 0, 1, &mut |_| {}),
        Err(TransportError::NoSuchRank { rank: 2, ranks: 2 })
    ));
}

#[test]
fn tags_keep_messages_apart() {
    let mut ends = Threads::connect(2);
    let (mut right, mut left) = (ends.pop().unwrap(), ends.pop().unwrap());
    for (tag, value) in [(7, 1.0), (0, 2.0), (7, 3.0), (5, 4.0)] {
        left.send(1, tag, 1, &mut |message| message.fill(value))
            .unwrap();
    }
    let mut read = |tag| {
        let mut seen = 0.0;
        right
            .recv(0, tag, 1, &mut |message| seen = message[0])
            .unwrap();
        seen
    };
    assert_eq!([5, 7, 0, 7].map(&mut read), [4.0, 1.0, 2.0, 3.0]);
    // A message with another tag wakes nobody.
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| read(9));
        left.send(1, 8, 1, &mut |message| message.fill(5.0))
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(5));
        left.send(1, 9, 1, &mut |message| message.fill(6.0))
            .unwrap();
        assert_eq!(reader.join().unwrap(), 6.0);
    });
    assert_eq!(read(8), 5.0);
}

#[test]
fn one_message_goes_to_several_ranks() {
    let mut ends = Threads::connect(4);
    for _ in 0..3 {
        ends[1]
            .send_all(&mut [0, 2].into_iter(), 0, &[1.0, 2.0])
            .unwrap();
        for reader in [0, 2] {
            let mut seen = Vec::new();
            ends[reader]
                .recv(1, 0, 2, &mut |message| seen.extend_from_slice(message))
                .unwrap();
            assert_eq!(seen, [1.0, 2.0]);
        }
    }
    assert_eq!((ends[1].bytes_sent(), ends[1].memory_bytes()), (48, 8));
    assert!(ends[1].send_all(&mut [4].into_iter(), 0, &[1.0]).is_err());
}

#[test]
fn a_rank_waits_until_all_have_sent() {
    let mut ends = Threads::connect(3);
    let mut reader = ends.remove(0);
    std::thread::scope(|scope| {
        for end in &mut ends {
            scope.spawn(|| {
                for n in 0..200 {
                    end.send(0, 0, 1, &mut |message| message.fill(n as f32))
                        .unwrap();
                }
            });
        }
        for n in 0..200 {
            reader.wait_for(&mut [1, 2].into_iter(), 0).unwrap();
            for sender in [2, 1] {
                let queued = lock(&reader.hub.inboxes[0].mail).queues[&sender]
                    .messages
                    .len();
                assert!(queued > 0, "message {n} of rank {sender}");
                reader
                    .recv(sender, 0, 1, &mut |message| assert_eq!(message, [n as f32]))
                    .unwrap();
            }
        }
    });
}

#[test]
fn a_failure_wakes_everyone() {
    let mut ends = Threads::connect(3);
    let failure = Failure {
        rank: 2,
        instruction: "step 0".to_owned(),
        reason: "lost".to_owned(),
    };
    let mut last = ends.pop().unwrap();
    std::thread::scope(|scope| {
        let waiting: Vec<_> = ends
            .iter_mut()
            .map(|end| scope.spawn(|| end.recv(2, 0, 1, &mut |_| {})))
            .collect();
        last.abort(failure.clone());
        last.abort(Failure {
            rank: 1,
            ..failure.clone()
        });
        for rank in waiting {
            assert_eq!(
                rank.join().unwrap(),
                Err(TransportError::Aborted(failure.clone()))
            );
        }
    });
    assert_eq!(
        ends[0].send(1, 0, 1, &mut |_| {}),
        Err(TransportError::Aborted(failure))
    );
}

/// Memory for messages in flight is allocated in advance and never grows, in whatever order they
/// are received.
#[test]
fn expected_messages_have_memory_from_the_beginning() {
    let mut ends = Threads::connect(2);
    let (mut right, mut left) = (ends.pop().unwrap(), ends.pop().unwrap());
    left.expect(1, 3, 30).unwrap();
    assert_eq!(left.memory_bytes(), 4 * 90);
    for lengths in [[10, 20, 30], [30, 20, 10], [20, 30, 10]] {
        for (tag, floats) in (0..).zip(lengths) {
            left.send(1, tag, floats, &mut |message| message.fill(floats as f32))
                .unwrap();
        }
        assert_eq!(left.memory_bytes(), 4 * 90);
        for (tag, floats) in (0..3).zip(lengths).rev() {
            let mut seen = Vec::new();
            right
                .recv(0, tag, floats, &mut |message| {
                    seen.extend_from_slice(message)
                })
                .unwrap();
            assert_eq!(seen, vec![floats as f32; floats]);
        }
        assert_eq!(left.memory_bytes(), 4 * 90);
    }
    // Unexpected messages take more memory while in flight: one more message, or a longer one.
    for lengths in [[5, 10, 20, 30], [40, 10, 10, 10]] {
        for floats in lengths {
            left.send(1, 0, floats, &mut |_| {}).unwrap();
        }
        assert_eq!(
            left.memory_bytes(),
            4 * (90 + lengths[0].max(lengths[3])) as u64
        );
        for floats in lengths {
            right.recv(0, 0, floats, &mut |_| {}).unwrap();
        }
        assert_eq!(left.memory_bytes(), 4 * 90);
    }
    assert!(left.expect(2, 1, 1).is_err());
    let refused = left.expect(1, usize::MAX / 8, 2);
    assert!(matches!(refused, Err(TransportError::NoMemory { .. })));
}

/// Ranks sleep at once if there are fewer cores than threads, and spin first otherwise. Either way
/// they receive messages sent while they wait, and learn of failures.
#[test]
fn ranks_with_and_without_cores_wait_for_what_is_sent() {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    for threads in [1, 4096] {
        let mut ends = Threads::connect_teams(2, threads);
        let (mut right, mut left) = (ends.remove(1), ends.remove(0));
        assert_eq!(left.hub.spin.is_zero(), 2 * threads > cores);
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0.0;
                let mut take = |message: &[f32]| seen += message[0];
                for n in 0..4 {
                    right.recv(0, n, 1, &mut take).unwrap();
                }
                let lost = right.recv(0, 4, 1, &mut take);
                (seen, lost)
            });
            for (n, pause) in [0, 1, 5, 80].into_iter().enumerate() {
                std::thread::sleep(Duration::from_millis(pause));
                left.send(1, n as u32, 1, &mut |message| message.fill(1.0))
                    .unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
            let failure = Failure {
                rank: 0,
                instruction: "step 0".to_owned(),
                reason: "lost".to_owned(),
            };
            left.abort(failure.clone());
            let aborted = Err(TransportError::Aborted(failure));
            assert_eq!(reader.join().unwrap(), (4.0, aborted));
        });
    }
}

/// A rank waiting for one that is not running gives up its core, long before it would otherwise.
#[test]
fn nobody_spins_for_a_rank_that_does_not_run() {
    let mut ends = Threads::connect(2);
    let (mut right, mut left) = (ends.remove(1), ends.remove(0));
    let hub = Arc::clone(&right.hub);
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || {
            right.recv(0, 0, 1, &mut |_| {}).unwrap();
            hub.clocks[1].is_mine();
            let before = hub.clocks[1].ran().unwrap();
            right.recv(0, 0, 1, &mut |_| {}).unwrap();
            hub.clocks[1].ran().unwrap() - before
        });
        left.send(1, 0, 1, &mut |_| {}).unwrap();
        std::thread::sleep(4 * SPIN);
        left.send(1, 0, 1, &mut |_| {}).unwrap();
        let spun = reader.join().unwrap();
        assert!(spun < SPIN / 2, "{spun:?}");
    });
}
