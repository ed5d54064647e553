//! A list that answers for a crowd.

use std::collections::BTreeSet;

use super::*;

/// A provider that can list: the machines it lists, and how often it was asked for the list.
struct Lists {
    scripted: Arc<Scripted>,
    machines: Mutex<Vec<Instance>>,
    asked: AtomicUsize,
    fails: bool,
}

impl Lists {
    fn new(machines: impl IntoIterator<Item = String>) -> Self {
        let machine = |name: String| {
            let id = ProviderId::new("test", &name).unwrap();
            Instance::new(id).address("InternalIP", "192.0.2.1")
        };
        let machines = Mutex::new(machines.into_iter().map(machine).collect());
        Self { scripted: Scripted::new(Says::Found), machines, asked: AtomicUsize::new(0), fails: false }
    }

    fn lists(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Instances for Lists {
    async fn lookup(&self, nodes: &[NodeRef], freshness: Freshness) -> Result<Vec<Existence>, Error> {
        self.scripted.lookup(nodes, freshness).await
    }

    async fn list(&self) -> Result<Option<Snapshot>, Error> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        sleep(ms(100)).await;
        if self.fails {
            return Err(Error::unauthorized("listing all servers"));
        }
        let mut seen = Snapshot::new("test");
        for machine in self.machines.lock().unwrap().iter() {
            let name = machine.provider_id.as_ref().unwrap().rest().to_owned();
            seen.insert(machine.clone(), [name]);
        }
        Ok(Some(seen))
    }
}

fn listing_loader(provider: &Arc<Lists>) -> Loader {
    let metrics = Metrics::unregistered();
    let budget = Budget::new("test", budget::Settings::default(), &metrics);
    let calls = Calls::new("test", budget, Deadlines::default(), &metrics);
    Loader::new(Arc::clone(provider) as Arc<dyn Instances>, calls, Settings::default())
}

/// One node asks every so often; how long each waited.
async fn one_after_the_other(loader: &Loader, count: usize, every: Duration) -> Vec<Duration> {
    let mut asking = JoinSet::new();
    for node in nodes(count) {
        let loader = loader.clone();
        asking.spawn(async move {
            let began = Instant::now();
            assert!(is(&*loader.one(&node, Urgency::Initialise).await, &node.name));
            began.elapsed()
        });
        sleep(every).await;
    }
    asking.join_all().await
}

#[tokio::test(start_paused = true)]
async fn a_crowd_is_answered_from_a_list_and_a_single_machine_is_looked_up() {
    let provider = Arc::new(Lists::new(nodes(1000).into_iter().map(|node| node.name)));
    let loader = listing_loader(&provider);
    loader.one(&node("node-0"), Urgency::Initialise).await;
    assert_eq!((provider.lists(), provider.scripted.sizes()), (0, vec![1]), "nobody followed");
    sleep(HOUR).await;

    let waited = one_after_the_other(&loader, 1000, ms(10)).await;
    assert_eq!(provider.scripted.sizes().len(), 2, "the first of the crowd: {:?}", provider.scripted.sizes());
    assert_eq!(provider.lists(), 2, "ten seconds of a crowd, and a list is good for five");
    let at_once = waited.iter().filter(|waited| waited.is_zero()).count();
    assert!(at_once > 900, "{at_once} of 1000 did not wait");
    assert!(loader.0.desk().is_clear());
}

#[tokio::test(start_paused = true)]
async fn whatever_a_list_lacks_is_looked_up() {
    let provider = Arc::new(Lists::new(nodes(500).into_iter().map(|node| node.name)));
    provider.machines.lock().unwrap()[400].addresses.clear();
    let loader = listing_loader(&provider);
    one_after_the_other(&loader, 600, ms(2)).await;
    let looked_up = provider.scripted.seen().into_iter().flat_map(|seen| seen.names);
    let looked_up: BTreeSet<String> = looked_up.collect();
    assert!(looked_up.contains("node-400"), "it has no address in the list");
    assert!((500..600).all(|number| looked_up.contains(&format!("node-{number}"))), "it lists 500");
    assert!(!looked_up.contains("node-300"), "found in the list");
}

#[tokio::test(start_paused = true)]
async fn a_list_answers_for_no_name_whose_node_went_since() {
    let provider = Arc::new(Lists::new(nodes(100).into_iter().map(|node| node.name)));
    let loader = listing_loader(&provider);
    one_after_the_other(&loader, 50, ms(10)).await;
    assert_eq!(provider.lists(), 1);
    let asked = provider.scripted.seen().len();
    loader.one(&node("node-98"), Urgency::Initialise).await;
    assert_eq!(provider.scripted.seen().len(), asked, "the list has it");
    loader.forget("node-99");
    loader.one(&node("node-99"), Urgency::Initialise).await;
    assert_eq!(provider.scripted.seen().last().unwrap().names, ["node-99"], "another machine of that name");
}

#[tokio::test(start_paused = true)]
async fn no_list_decides_about_a_node_s_life_nor_answers_whoever_wants_a_younger_answer() {
    let provider = Arc::new(Lists::new(nodes(100).into_iter().map(|node| node.name)));
    let loader = listing_loader(&provider);
    one_after_the_other(&loader, 50, ms(10)).await;
    assert_eq!(provider.lists(), 1);
    for age in [Age::Now, Age::AtMost(ms(1))] {
        loader.many(&[node("node-98")], Urgency::Initialise, age).await;
        assert_eq!(provider.scripted.seen().last().unwrap().names, ["node-98"], "{age:?}");
    }
    // One who waits for a batch that gathers, and will not have an old answer, is not answered from the list that comes.
    sleep(HOUR).await;
    let strict = async {
        loader.one(&node("node-1"), Urgency::Initialise).await;
        let (easy, strict) = (node("node-2"), [node("node-2")]);
        let one = loader.one(&easy, Urgency::Initialise);
        let many = loader.many(&strict, Urgency::Initialise, Age::AtMost(ms(1)));
        tokio::join!(one, many)
    };
    strict.await;
    assert_eq!(provider.lists(), 2, "the second batch is part of a crowd");
    assert_eq!(provider.scripted.seen().last().unwrap().names, ["node-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_cloud_that_fails_to_list_is_looked_up_and_not_asked_for_its_list_again_soon() {
    let provider = Arc::new(Lists { fails: true, ..Lists::new([]) });
    let loader = listing_loader(&provider);
    one_after_the_other(&loader, 100, ms(50)).await;
    assert_eq!(provider.lists(), 1);
}

/// The list was asked for while the former machine was there, and comes when its Node is gone.
#[tokio::test(start_paused = true)]
async fn a_list_that_is_on_its_way_when_a_node_goes_does_not_answer_for_its_name() {
    let provider = Arc::new(Lists::new(nodes(100).into_iter().map(|node| node.name)));
    let loader = listing_loader(&provider);
    loader.one(&node("node-1"), Urgency::Initialise).await;
    let asking = tokio::spawn({
        let loader = loader.clone();
        async move { loader.one(&node("node-2"), Urgency::Initialise).await }
    });
    sleep(ms(50)).await;
    assert_eq!(provider.lists(), 1, "it takes twice as long");
    loader.forget("node-99");
    asking.await.unwrap();
    let asked = provider.scripted.seen().len();
    loader.one(&node("node-98"), Urgency::Initialise).await;
    assert_eq!(provider.scripted.seen().len(), asked, "the list has it");
    loader.one(&node("node-99"), Urgency::Initialise).await;
    assert_eq!(provider.scripted.seen().last().unwrap().names, ["node-99"]);
}
