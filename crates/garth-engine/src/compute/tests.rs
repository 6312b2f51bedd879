//! Tests of compute work. None of them depends on time: pieces wait for messages of the test.

use std::cell::RefCell;
use std::sync::Barrier;
use std::sync::mpsc;
use std::thread;

use futures::FutureExt as _;
use futures::executor::block_on;
use futures::future::join_all;

use super::*;
use crate::threads::turns::AT_ONCE;

fn with_steps(threads: usize, steps: u64) -> Compute {
    Compute::within(ComputeLimits { threads, steps, ..ComputeLimits::default() })
}

/// Returns a piece that occupies its thread until the sender sends or is dropped.
fn gate() -> (mpsc::Sender<()>, impl Future<Output = ()> + Send + 'static) {
    let (open, opened) = mpsc::channel::<()>();
    (open, async move {
        let _ = opened.recv();
    })
}

#[test]
fn work_runs_on_a_compute_thread() {
    let compute = Compute::new();
    let name = || thread::current().name().map(str::to_owned);
    let answered = block_on(compute.run("a", 10, async move { (working(7), name()).1 })).unwrap();
    assert_eq!(answered.as_deref(), Some("garth-compute"));
    let computed = compute.computed();
    assert_eq!((computed.pieces, computed.steps, computed.steps_in_place), (1, 7, 0));
}

#[test]
fn account_never_takes_all_threads() {
    // One thread more than an account may occupy.
    let compute = with_steps(AT_ONCE + 1, ComputeLimits::default().steps);
    let (gates, greedy): (Vec<_>, Vec<_>) = (0..10).map(|_| gate()).unzip();
    let mut greedy = join_all(greedy.into_iter().map(|work| compute.run("greedy", 1, work)));
    // Polled once, which queues all pieces.
    assert!((&mut greedy).now_or_never().is_none());
    for answer in 0..10 {
        assert_eq!(block_on(compute.run("quiet", 1, async move { answer })).unwrap(), answer);
    }
    drop(gates);
    assert!(block_on(greedy).iter().all(Result::is_ok));
}

#[test]
fn waiting_work_occupies_no_thread() {
    let compute = with_steps(1, ComputeLimits::default().steps);
    let (sender, waits) = oneshot::channel::<u8>();
    let mut waiting = Box::pin(compute.run("a", 1, waits));
    assert!((&mut waiting).now_or_never().is_none());
    block_on(compute.run("a", 1, async {})).unwrap();
    sender.send(7).unwrap();
    assert_eq!(block_on(waiting).unwrap(), Ok(7));
}

#[test]
fn work_that_wakes_itself_continues() {
    let compute = Compute::new();
    let mut left = 100;
    let work = std::future::poll_fn(move |context| {
        // Woken while it runs: the wake must not be lost.
        context.waker().wake_by_ref();
        left -= 1;
        if left == 0 { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    });
    block_on(compute.run("a", 1, work)).unwrap();
}

#[test]
fn work_ends_when_nobody_waits() {
    let compute = with_steps(1, ComputeLimits::default().steps);
    let (open, blocks) = gate();
    let (dropped, told) = mpsc::channel::<()>();
    let mut first = Box::pin(compute.run("a", 1, blocks));
    assert!((&mut first).now_or_never().is_none());
    let in_line = async move { dropped.send(()).unwrap() };
    // Never started: dropped in line.
    assert!(compute.run("a", 1, in_line).now_or_never().is_none());
    // The piece is dropped with its sender, without having run.
    told.recv().unwrap_err();
    drop(open);
    block_on(first).unwrap();

    let (begun, is_begun) = mpsc::channel();
    let (open, blocks) = mpsc::channel::<()>();
    let (checked, check) = mpsc::channel();
    let runs = async move {
        begun.send(()).unwrap();
        let _ = blocks.recv();
        checked.send(go_on().is_err()).unwrap();
    };
    let mut running = Box::pin(compute.run("a", 1, runs));
    assert!((&mut running).now_or_never().is_none());
    is_begun.recv().unwrap();
    drop(running);
    drop(open);
    assert!(check.recv().unwrap(), "a loop learns that nobody waits");
}

#[test]
fn bytes_are_bounded_per_piece_account_and_pool() {
    let compute = Compute::new();
    // A piece that nobody can wake is given up, sooner or later.
    let wakers = RefCell::new(Vec::new());
    let waits = || {
        let (waker, woken) = oneshot::channel::<()>();
        wakers.borrow_mut().push(waker);
        async {
            let _ = woken.await;
        }
    };
    let kind = |account: &str, bytes| {
        let piece = compute.run(account, bytes, waits());
        piece.now_or_never().map(|outcome| outcome.unwrap_err().kind())
    };
    assert_eq!(kind("a", MAX_PIECE + 1), Some(ErrorKind::TooLarge));
    let mut held = Vec::new();
    for account in ["a", "b"] {
        for _ in 0..MAX_QUEUED / 2 / MAX_PIECE {
            let mut piece = Box::pin(compute.run(account, MAX_PIECE, waits()));
            assert!((&mut piece).now_or_never().is_none());
            held.push(piece);
        }
        assert_eq!(kind(account, 1), Some(ErrorKind::WouldBlock), "{account}");
    }
    assert_eq!(kind("c", 1), Some(ErrorKind::WouldBlock));
    held.clear();
    wakers.borrow_mut().clear();
    while compute.0.queued() > 0 {
        thread::yield_now();
    }
    assert_eq!(kind("a", MAX_PIECE), None);
}

#[test]
fn work_of_too_many_steps_fails() {
    let compute = with_steps(1, 100);
    let checked = async {
        working(101);
        go_on()
    };
    assert!(block_on(compute.run("a", 1, checked)).unwrap().unwrap_err().is(ErrorKind::TimedOut));
    let waits = async {
        working(101);
        std::future::pending::<()>().await;
    };
    assert!(block_on(compute.run("a", 1, waits)).unwrap_err().is(ErrorKind::TimedOut));
    assert_eq!(block_on(compute.run("a", 1, async { working(100) })).ok(), Some(()));
}

#[test]
fn panicking_work_fails_and_costs_no_thread() {
    let compute = with_steps(1, ComputeLimits::default().steps);
    for _ in 0..4 {
        let lost = block_on(compute.run("a", 1, async { panic!("as the test asks") }));
        assert!(lost.map(|(): ()| ()).unwrap_err().is(ErrorKind::Io));
    }
    block_on(compute.run("a", 1, async {})).unwrap();
    while compute.0.queued() > 0 {
        thread::yield_now();
    }
}

#[test]
fn work_within_work_runs_in_place() {
    let compute = with_steps(1, ComputeLimits::default().steps);
    let inner = compute.clone();
    // More bytes than a queued piece may have.
    let work = async move { inner.run("b", usize::MAX, async { thread::current().id() }).await };
    block_on(compute.run("a", 1, work)).unwrap().unwrap();
    assert_eq!(compute.computed().pieces, 1);
}

#[test]
fn concurrent_callers_all_get_their_results() {
    let compute = with_steps(3, ComputeLimits::default().steps);
    let start = Barrier::new(4);
    thread::scope(|scope| {
        for caller in 0..4_u64 {
            let (compute, start) = (&compute, &start);
            scope.spawn(move || {
                start.wait();
                for round in 0..200 {
                    let (sender, receiver) = oneshot::channel();
                    let work = async move { (round, receiver.await.unwrap()) };
                    let account = ["a", "b"][(caller % 2) as usize];
                    let wakes = async { sender.send(caller).unwrap() };
                    let (answered, ()) =
                        block_on(async { futures::join!(compute.run(account, 1, work), wakes) });
                    assert_eq!(answered.unwrap(), (round, caller));
                }
            });
        }
    });
    assert_eq!(compute.0.queued(), 0);
}

#[test]
#[cfg(debug_assertions)]
fn serving_thread_rejects_long_computation() {
    let compute = Compute::new();
    let little = async {
        working(IN_PLACE / 2);
        working(IN_PLACE / 2);
    };
    block_on(compute.serving(little));
    assert_eq!(compute.computed().steps_in_place, IN_PLACE as u64);
    let found = std::panic::catch_unwind(|| block_on(compute.serving(async { working(IN_PLACE + 1) })));
    assert!(found.is_err());
    // The thread is in its previous place again.
    working(IN_PLACE + 1);
    block_on(compute.serving(compute.run("a", 1, async { working(IN_PLACE + 1) }))).unwrap();
}

#[test]
fn a_larger_queue_takes_more_work() {
    let queued = 6 * MAX_PIECE;
    assert!(queued > MAX_QUEUED);
    let compute = Compute::within(ComputeLimits { threads: 1, queued, ..ComputeLimits::default() });
    let (_gate, work) = gate();
    let mut waiting = Vec::new();
    let mut held = Box::pin(compute.run("a", MAX_PIECE, work));
    assert!((&mut held).now_or_never().is_none());
    for (account, pieces, fits) in [("a", 2, true), ("a", 1, false), ("b", 3, true), ("c", 1, false)] {
        for _ in 0..pieces {
            let mut piece = Box::pin(compute.run(account, MAX_PIECE, async {}));
            let polled = (&mut piece).now_or_never();
            assert_eq!(polled.is_none(), fits, "{account}");
            waiting.push(piece);
        }
    }
}
