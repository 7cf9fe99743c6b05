//! Processes find each other, or fail to.

use super::*;
use std::os::unix::fs::symlink;
use tempfile::{TempDir, tempdir};

const AN_ID: [u8; ID] = [7; ID];

fn processes(folder: &TempDir, rank: u32, ranks: u32) -> Processes {
    Processes {
        rank,
        ranks,
        rendezvous: folder.path().join("run"),
        patience: Duration::from_secs(20),
    }
}

fn facts(graph: &str) -> Vec<Fact> {
    let fact = |about: &str, value: &str| Fact {
        about: about.to_owned(),
        value: value.to_owned(),
    };
    vec![fact("gnnc", "1"), fact("graph", graph)]
}

/// The results of ranks that have these graphs; each holds its result for a moment.
fn meet(folder: &TempDir, graphs: &[&str]) -> Vec<Result<[u8; ID], String>> {
    let ranks = graphs.len() as u32;
    std::thread::scope(|scope| {
        let each = graphs.iter().zip(0..).map(|(graph, rank)| {
            let own = processes(folder, rank, ranks);
            scope.spawn(move || {
                let met = match rank {
                    0 => lead(&own, &AN_ID, &facts(graph)).map(|_| AN_ID),
                    _ => follow(&own, &facts(graph)),
                };
                met.map_err(|error| error.to_string())
            })
        });
        let started: Vec<_> = each.collect();
        started
            .into_iter()
            .map(|rank| rank.join().unwrap())
            .collect()
    })
}

fn is_empty(folder: &TempDir) -> bool {
    fs::read_dir(folder.path()).unwrap().count() == 0
}

#[test]
fn an_identifier_arrives_everywhere() {
    let folder = tempdir().unwrap();
    for _ in 0..3 {
        assert_eq!(meet(&folder, &["a", "a", "a"]), vec![Ok(AN_ID); 3]);
        assert!(is_empty(&folder), "rank 0 removes the files");
    }
}

#[test]
fn ranks_that_differ_are_refused_at_once() {
    let folder = tempdir().unwrap();
    let began = Instant::now();
    let met = meet(&folder, &["a", "b"]);
    assert!(began.elapsed() < Duration::from_secs(10));
    for result in met {
        let said = result.unwrap_err();
        for part in ["the processes disagree", "graph: b on", "a on rank 0"] {
            assert!(said.contains(part), "{said}");
        }
        assert!(!said.contains("gnnc:"), "{said}");
    }
    let four = processes(&folder, 1, 4);
    let two = processes(&folder, 0, 2);
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| follow(&four, &facts("a")));
        let impatient = Processes {
            patience: Duration::from_secs(1),
            ..two
        };
        let error = lead(&impatient, &AN_ID, &facts("a"))
            .map(|_| ())
            .unwrap_err();
        assert!(
            error.to_string().contains("waited 1 s for rank 1"),
            "{error}"
        );
        let error = follower.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("started with 2 ranks"), "{error}");
    });
}

#[test]
fn nobody_waits_for_ever() {
    let folder = tempdir().unwrap();
    let impatient = Processes {
        patience: Duration::from_millis(100),
        ..processes(&folder, 1, 2)
    };
    let error = follow(&impatient, &[]).unwrap_err().to_string();
    assert!(error.contains("rank 1 waited"), "{error}");
}

/// A killed run leaves its file; the lock shows that nobody holds it any more.
#[test]
fn leftovers_are_taken_over_and_running_ones_are_not() {
    let folder = tempdir().unwrap();
    let own = processes(&folder, 0, 1);
    let held = lead(&own, &AN_ID, &[]).unwrap();
    let text = fs::read(&own.rendezvous).unwrap();
    let error = lead(&own, &AN_ID, &[]).map(|_| ()).unwrap_err();
    assert!(
        error.to_string().contains("another run is using"),
        "{error}"
    );
    assert!(own.rendezvous.exists());
    drop(held);
    fs::write(&own.rendezvous, &text).unwrap();
    fs::write(
        answer_path(&own.rendezvous, 1),
        br#"{"run":"old","facts":[]}"#,
    )
    .unwrap();
    assert_eq!(meet(&folder, &["a", "a"]), vec![Ok(AN_ID); 2]);
    assert!(is_empty(&folder));
}

#[test]
fn other_files_are_refused_and_stay() {
    let folder = tempdir().unwrap();
    let (leader, follower) = (processes(&folder, 0, 2), processes(&folder, 1, 2));
    let victim = folder.path().join("victim");
    for content in [
        "",
        "text",
        "{}",
        r#"{"kind":"x","run":"","ranks":2,"id":"","facts":[]}"#,
    ] {
        fs::write(&leader.rendezvous, content).unwrap();
        if !content.contains("kind") {
            let error = lead(&leader, &AN_ID, &[]).map(|_| ()).unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("is not a file written by rank 0"),
                "{error}"
            );
        }
        let held = File::open(&leader.rendezvous).unwrap();
        held.try_lock().unwrap();
        let error = follow(&follower, &[]).unwrap_err().to_string();
        assert!(error.contains("is not a file written by rank 0"), "{error}");
        assert_eq!(fs::read_to_string(&leader.rendezvous).unwrap(), content);
    }
    fs::remove_file(&leader.rendezvous).unwrap();
    // A planted link does not lead to another file.
    fs::write(&victim, "precious").unwrap();
    symlink(&victim, &leader.rendezvous).unwrap();
    assert!(lead(&leader, &AN_ID, &[]).is_err());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}
