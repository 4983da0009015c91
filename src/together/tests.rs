use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;

/// Notes each write; waits for a permit before each one that is made together.
struct Noted {
    writes: Mutex<Vec<Vec<u32>>>,
    alone: AtomicUsize,
    permits: Semaphore,
    answer: fn(&[u32]) -> Result<Vec<u32>, NotTogether>,
}

#[derive(Clone)]
struct Shared(Arc<Noted>);

#[async_trait]
impl Batched for Shared {
    type Item = u32;
    type Outcome = u32;

    async fn run_together(&self, items: &[Arc<u32>]) -> Result<Vec<u32>, NotTogether> {
        let items: Vec<u32> = items.iter().map(|item| **item).collect();
        self.0.writes.lock().unwrap().push(items.clone());
        self.0.permits.acquire().await.unwrap().forget();
        (self.0.answer)(&items)
    }

    async fn run_alone(&self, item: &u32) -> Result<u32, StorageError> {
        self.0.alone.fetch_add(1, Ordering::SeqCst);
        match item {
            13 => Err(StorageError::Inconsistent("unlucky".into())),
            item => Ok(item * 1000),
        }
    }
}

fn noted(answer: fn(&[u32]) -> Result<Vec<u32>, NotTogether>, permits: usize) -> Shared {
    Shared(Arc::new(Noted {
        writes: Mutex::default(),
        alone: AtomicUsize::new(0),
        permits: Semaphore::new(permits),
        answer,
    }))
}

fn ten_times(items: &[u32]) -> Result<Vec<u32>, NotTogether> {
    Ok(items.iter().map(|item| item * 10).collect())
}

/// Starts a write of each item, in their order, without waiting for any.
async fn begin(
    together: &Arc<Together<Shared>>,
    items: impl IntoIterator<Item = u32>,
) -> Vec<tokio::task::JoinHandle<Result<u32, StorageError>>> {
    let mut begun = Vec::new();
    for item in items {
        let together = Arc::clone(together);
        begun.push(tokio::spawn(
            async move { together.run(Arc::new(item)).await },
        ));
        tokio::task::yield_now().await;
    }
    begun
}

async fn outcomes(
    begun: Vec<tokio::task::JoinHandle<Result<u32, StorageError>>>,
) -> Vec<Result<u32, String>> {
    let all = join_all(begun).await.into_iter();
    all.map(|one| one.unwrap().map_err(|error| error.to_string()))
        .collect()
}

#[tokio::test]
async fn an_item_that_finds_nobody_writing_is_written_at_once_and_alone() {
    let write = noted(ten_times, 100);
    let together = Together::new(write.clone());
    for item in [1, 2] {
        assert_eq!(together.run(Arc::new(item)).await.unwrap(), item * 10);
    }
    assert_eq!(*write.0.writes.lock().unwrap(), [vec![1], vec![2]]);
}

#[tokio::test(start_paused = true)]
async fn what_arrives_during_a_write_goes_together_into_the_next_one() {
    let write = noted(ten_times, 0);
    let together = Arc::new(Together::new(write.clone()));
    let begun = begin(&together, 1..=100).await;
    write.0.permits.add_permits(3);
    let told: Vec<_> = (1..=100).map(|item| Ok(item * 10)).collect();
    assert_eq!(outcomes(begun).await, told);
    let writes = write.0.writes.lock().unwrap().clone();
    let sizes: Vec<usize> = writes.iter().map(Vec::len).collect();
    assert_eq!(sizes, [1, ITEMS_MAX, 99 - ITEMS_MAX]);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_stuck_holds_nobody_up_for_long() {
    let write = noted(ten_times, 0);
    let together = Arc::new(Together::new(write.clone()));
    let begun = begin(&together, [1, 2, 3]).await;
    tokio::time::sleep(PATIENCE * 2).await;
    assert_eq!(*write.0.writes.lock().unwrap(), [vec![1], vec![2, 3]]);
    write.0.permits.add_permits(2);
    assert_eq!(outcomes(begun).await, [Ok(10), Ok(20), Ok(30)]);
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_as_a_whole_is_written_one_by_one_and_each_has_its_own_outcome() {
    let refused = |_: &[u32]| {
        Err(NotTogether::Refused(StorageError::Inconsistent(
            "half".into(),
        )))
    };
    let write = noted(refused, 9);
    let together = Arc::new(Together::new(write.clone()));
    let begun = begin(&together, [1, 13, 3]).await;
    let unlucky = Err("the store is inconsistent: unlucky".to_owned());
    assert_eq!(outcomes(begun).await, [Ok(1000), unlucky, Ok(3000)]);
    assert_eq!(write.0.alone.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn what_may_have_been_written_is_not_written_again() {
    let lost = |_: &[u32]| Err(NotTogether::Failed(StorageError::Unavailable("cut".into())));
    let write = noted(lost, 9);
    let together = Arc::new(Together::new(write.clone()));
    let begun = begin(&together, [1, 2]).await;
    let cut = || Err("the store is not available: cut".to_owned());
    assert_eq!(outcomes(begun).await, [cut(), cut()]);
    assert_eq!(write.0.alone.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn outcomes_that_cannot_be_matched_are_nobodys() {
    let write = noted(|_| Ok(Vec::new()), 9);
    let outcome = Together::new(write).run(Arc::new(1)).await;
    assert!(
        matches!(outcome, Err(StorageError::Inconsistent(_))),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn a_panic_in_one_write_leaves_the_queue_alive() {
    let write = noted(
        |items| match items {
            [13] => panic!("unlucky"),
            items => ten_times(items),
        },
        9,
    );
    let together = Together::new(write);
    let unlucky = together.run(Arc::new(13)).await;
    assert!(
        matches!(unlucky, Err(StorageError::Unavailable(_))),
        "{unlucky:?}"
    );
    assert_eq!(together.run(Arc::new(1)).await.unwrap(), 10);
}

#[tokio::test(start_paused = true)]
async fn who_waits_no_more_does_not_disturb_the_others() {
    let write = noted(ten_times, 0);
    let together = Arc::new(Together::new(write.clone()));
    let mut begun = begin(&together, [1, 2, 3]).await;
    begun.remove(1).abort();
    write.0.permits.add_permits(2);
    assert_eq!(outcomes(begun).await, [Ok(10), Ok(30)]);
    let written = write.0.writes.lock().unwrap().concat();
    assert_eq!(written, [1, 2, 3], "what was handed over is written");
}

#[tokio::test(start_paused = true)]
async fn the_first_may_give_up_in_the_middle_of_its_write() {
    let write = noted(ten_times, 0);
    let together = Arc::new(Together::new(write.clone()));
    let mut begun = begin(&together, [1, 2, 3]).await;
    begun.remove(0).abort();
    write.0.permits.add_permits(1);
    assert_eq!(outcomes(begun).await, [Ok(20), Ok(30)]);
    assert_eq!(*write.0.writes.lock().unwrap(), [vec![1], vec![2, 3]]);
}

#[tokio::test]
async fn whoever_is_first_writes_in_its_own_task() {
    struct InTask;
    #[async_trait]
    impl Batched for InTask {
        type Item = ();
        type Outcome = Option<tokio::task::Id>;

        async fn run_together(&self, _: &[Arc<()>]) -> Result<Vec<Self::Outcome>, NotTogether> {
            Ok(vec![tokio::task::try_id()])
        }

        async fn run_alone(&self, (): &()) -> Result<Self::Outcome, StorageError> {
            Ok(None)
        }
    }
    let together = Together::new(InTask);
    let own = tokio::spawn(async move {
        let own = tokio::task::try_id();
        assert!(own.is_some());
        assert_eq!(together.run(Arc::new(())).await.unwrap(), own);
    });
    own.await.unwrap();
}
