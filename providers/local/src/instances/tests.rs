use std::sync::Mutex;

use cloud_provider::Context;
use rstest::rstest;

use super::*;
use crate::inventory::Source;

struct Text(Mutex<String>);

#[async_trait]
impl Source for Text {
    fn place(&self) -> String {
        "machines.yaml".to_owned()
    }

    async fn read(&self) -> std::io::Result<Vec<u8>> {
        Ok(self.0.lock().unwrap().clone().into_bytes())
    }
}

fn node(name: &str, provider_id: Option<&str>) -> NodeRef {
    NodeRef { name: name.into(), provider_id: provider_id.map(str::to_owned), ..NodeRef::default() }
}

async fn inventoried(text: &str) -> (Arc<Text>, Inventoried) {
    let source = Arc::new(Text(Mutex::new(text.to_owned())));
    let metrics = Context::inert().metrics;
    let watched = Watched::open(Arc::clone(&source) as _, "lab", Defaults::default(), metrics).await.unwrap();
    (source, Inventoried::new("lab", Arc::new(watched)))
}

#[tokio::test]
async fn while_the_inventory_is_broken_known_machines_are_found_and_nobody_is_absent() {
    let (source, instances) = inventoried("machines: [{name: a}]").await;
    *source.0.lock().unwrap() = "machines: [{name".to_owned();
    let asked = [node("a", None), node("b", None)];
    let answers = instances.lookup(&asked, Freshness::Recent).await.unwrap();
    assert!(matches!(answers[0], Existence::Found(_)), "{answers:?}");
    assert!(matches!(answers[1], Existence::Unknown(Doubt::Incomplete(_))), "{answers:?}");
    let error = instances.lookup(&asked, Freshness::Now).await.unwrap_err();
    assert!(error.report().contains("machines.yaml:1: "), "{}", error.report());
}

#[tokio::test]
async fn a_node_of_another_site_is_not_ours() {
    let (_, instances) = inventoried("machines: [{name: a}]").await;
    let asked = [node("a", Some("local://attic/a")), node("a", Some("local://lab/z"))];
    let answers = instances.lookup(&asked, Freshness::Now).await.unwrap();
    assert!(matches!(answers[0], Existence::NotMine), "{answers:?}");
    assert!(matches!(answers[1], Existence::Absent(_)), "{answers:?}");
}

fn adopt(node: &NodeRef) -> Existence {
    let defaults = Defaults { zone: "rack-1".into(), region: "lab".into(), instance_type: "nuc".into() };
    Adopted::new("lab", defaults).adopt(node)
}

#[test]
fn an_adopted_node_is_what_its_kubelet_registered() {
    let mut asked = node("a", None);
    asked.annotations.insert(annotations::PROVIDED_NODE_IP.into(), "192.0.2.7,2001:db8::7".into());
    asked.labels.insert(labels::ZONE.into(), "rack-9".into());
    let Existence::Found(instance) = adopt(&asked) else { panic!("not adopted") };
    assert_eq!(instance.provider_id.as_ref().unwrap().as_str(), "local://lab/a");
    assert_eq!((instance.zone.as_deref(), instance.region.as_deref()), (Some("rack-9"), Some("lab")));
    assert_eq!((instance.instance_type.as_deref(), instance.power), (Some("nuc"), Power::Untold));
    let addresses: Vec<&str> = instance.addresses.iter().map(|each| each.address.as_str()).collect();
    assert_eq!(addresses, ["192.0.2.7", "2001:db8::7", "a"]);

    // What was written to the Node is adopted again without a change.
    let again =
        NodeRef { provider_id: Some("local://lab/a".into()), addresses: instance.addresses.clone(), ..asked };
    let Existence::Found(same) = adopt(&again) else { panic!("not adopted again") };
    assert_eq!(same, instance);
}

#[rstest]
#[case("aws:///zone/i-1")]
#[case("localhost://a")]
#[case("local://attic/a")]
fn a_node_of_another_cloud_or_site_is_not_adopted(#[case] id: &str) {
    let answer = adopt(&node("a", Some(id)));
    assert!(matches!(answer, Existence::NotMine), "{answer:?}");
}

#[test]
fn a_provider_id_that_cannot_be_read_is_unknown() {
    let answer = adopt(&node("a", Some("local://")));
    assert!(matches!(answer, Existence::Unknown(Doubt::BadProviderId(_))), "{answer:?}");
}
