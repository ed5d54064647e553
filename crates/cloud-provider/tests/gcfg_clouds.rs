//! Sample files of the clouds that use this format, read as their providers would.

use std::{collections::BTreeMap, net::IpAddr};

use cloud_provider::gcfg::{self, GoDuration, Loaded};
use ipnet::IpNet;
use serde::{Deserialize, de::DeserializeOwned};

fn load<T: DeserializeOwned>(file: &str, bytes: &[u8]) -> Loaded<T> {
    gcfg::read(file, bytes).unwrap_or_else(|errors| panic!("{errors}"))
}

fn seconds(seconds: i64) -> GoDuration {
    GoDuration::from_nanos(seconds * 1_000_000_000)
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "PascalCase")]
struct Aws {
    global: AwsGlobal,
    service_override: BTreeMap<String, AwsOverride>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct AwsGlobal {
    zone: String,
    vpc: String,
    subnet_id: String,
    route_table_id: String,
    role_arn: String,
    source_arn: String,
    kubernetes_cluster_tag: String,
    kubernetes_cluster_id: String,
    disable_security_group_ingress: bool,
    elb_security_group: String,
    node_ip_families: Vec<String>,
    cluster_service_load_balancer_health_probe_mode: ProbeMode,
    cluster_service_shared_load_balancer_health_probe_port: i32,
    cluster_service_shared_load_balancer_health_probe_path: String,
    supported_topology_instance_type_pattern: String,
    nlb_security_group_mode: String,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
enum ProbeMode {
    #[default]
    ServiceNodePort,
    Shared,
}

#[derive(Deserialize)]
struct AwsOverride {
    service: String,
    region: String,
    url: String,
    #[serde(rename = "SigningName")]
    signing_name: Option<String>,
    #[serde(rename = "SigningRegion")]
    _signing_region: String,
    #[serde(default, rename = "SigningMethod")]
    signing_method: String,
}

#[test]
fn aws() {
    let Loaded { config, warnings } = load::<Aws>("aws.conf", include_bytes!("testdata/gcfg/aws.conf"));
    assert_eq!(warnings, []);
    let global = config.global;
    assert_eq!((global.zone.as_str(), global.vpc.as_str()), ("eu-west-1a", "vpc-0a1b2c3d4e5f60718"));
    assert_eq!(global.subnet_id, "subnet-0123456789abcdef0");
    assert_eq!(global.route_table_id, "rtb-0f1e2d3c4b5a69788");
    assert_eq!(global.role_arn, "arn:aws:iam::123456789012:role/ccm");
    assert_eq!(global.source_arn, "arn:aws:eks:eu-west-1:123456789012:cluster/blue");
    assert_eq!(
        (global.kubernetes_cluster_tag.as_str(), global.kubernetes_cluster_id.as_str()),
        ("blue", "blue")
    );
    assert!(!global.disable_security_group_ingress);
    assert_eq!(global.elb_security_group, "sg-00aa11bb22cc33dd4");
    assert_eq!(global.node_ip_families, ["ipv4", "ipv6"]);
    assert_eq!(global.cluster_service_load_balancer_health_probe_mode, ProbeMode::Shared);
    assert_eq!(global.cluster_service_shared_load_balancer_health_probe_port, 10256);
    assert_eq!(global.cluster_service_shared_load_balancer_health_probe_path, "/healthz");
    assert_eq!(global.supported_topology_instance_type_pattern, "^(hpc|trn|p)[0-9].*$");
    assert_eq!(global.nlb_security_group_mode, "Managed");
    let (ec2, elb) = (&config.service_override["1"], &config.service_override["2"]);
    assert_eq!((ec2.service.as_str(), ec2.url.as_str()), ("ec2", "https://ec2.private.example:8443"));
    assert_eq!((ec2.signing_name.as_deref(), ec2.signing_method.as_str()), (Some("ec2"), "v4"));
    assert_eq!((elb.region.as_str(), elb.signing_name.as_deref()), ("eu-west-1", None));
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpenStack {
    global: OpenStackGlobal,
    networking: OpenStackNetworking,
    route: BTreeMap<String, BTreeMap<String, String>>,
    #[serde(rename = "LoadBalancer")]
    load_balancer: OpenStackLoadBalancer,
    #[serde(rename = "LoadBalancerClass")]
    classes: BTreeMap<String, OpenStackClass>,
    metadata: Option<OpenStackMetadata>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "kebab-case")]
struct OpenStackGlobal {
    auth_url: String,
    os_endpoint_type: String,
    ca_file: String,
    username: String,
    password: String,
    region: String,
    tenant_name: String,
    tenant_domain_name: String,
    user_domain_name: String,
    tls_insecure: bool,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct OpenStackNetworking {
    ipv6_support_disabled: bool,
    public_network_name: Vec<String>,
    internal_network_name: Vec<String>,
    address_sort_order: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
#[expect(clippy::struct_excessive_bools, reason = "the cloud's own settings")]
struct OpenStackLoadBalancer {
    enabled: bool,
    floating_network_id: String,
    floating_subnet: String,
    lb_method: String,
    lb_provider: String,
    subnet_id: String,
    create_monitor: bool,
    monitor_delay: GoDuration,
    monitor_timeout: GoDuration,
    monitor_max_retries: u32,
    monitor_max_retries_down: u32,
    cascade_delete: bool,
    manage_security_groups: bool,
    node_selector: String,
    max_shared_lb: usize,
}

#[derive(Deserialize, Default, Debug, PartialEq)]
#[serde(default)]
struct OpenStackClass {
    floating_network_id: String,
    floating_subnet_tags: String,
    subnet_id: String,
    member_subnet_id: String,
}

#[derive(Deserialize)]
struct OpenStackMetadata {
    search_order: String,
}

#[test]
fn openstack() {
    let Loaded { config, warnings } =
        load::<OpenStack>("openstack.conf", include_bytes!("testdata/gcfg/openstack.conf"));
    let shown: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["openstack.conf:53: [BlockStorage]: unknown section, ignored"]);

    let global = config.global;
    assert_eq!(global.auth_url, "https://keystone.example:5000/v3");
    assert_eq!((global.os_endpoint_type.as_str(), global.username.as_str()), ("internal", "k8s"));
    assert_eq!(global.ca_file, "/etc/ssl/certs/openstack.pem");
    assert_eq!(global.password, r#"s3cr3t # with "quotes", \ and ; inside"#);
    assert_eq!((global.region.as_str(), global.tenant_name.as_str()), ("RegionOne", "kubernetes"));
    assert_eq!(
        (global.tenant_domain_name.as_str(), global.user_domain_name.as_str()),
        ("Default", "Default")
    );
    assert!(global.tls_insecure, "a key alone is true");

    assert!(config.networking.ipv6_support_disabled);
    assert_eq!(config.networking.public_network_name, ["public", "dmz"]);
    assert_eq!(config.networking.internal_network_name, ["private"]);
    assert_eq!(config.networking.address_sort_order, "10.0.0.0/8, 2001:db8::/32");
    assert_eq!(config.route[""]["router-id"], "7c1ed2d1-8a0e-4b1c-9a6b-1d5f6f2f0c11");
    assert_eq!(config.metadata.map(|m| m.search_order).as_deref(), Some("configDrive,metadataService"));

    let lb = config.load_balancer;
    assert_eq!(
        (lb.enabled, lb.create_monitor, lb.cascade_delete, lb.manage_security_groups),
        (true, true, true, false)
    );
    assert_eq!(lb.floating_network_id, "1f3a2c4e-5f0b-4f6a-8a46-7e1f5f8d9f00");
    assert_eq!(lb.floating_subnet, "~^public-[0-9]+$");
    assert_eq!((lb.lb_method.as_str(), lb.lb_provider.as_str()), ("ROUND_ROBIN", "amphora"));
    assert_eq!(lb.subnet_id, "5bc1e5a0-6bbd-4f7e-b5b8-8d6e2a9a8b11");
    assert_eq!((lb.monitor_delay, lb.monitor_timeout), (seconds(5), seconds(3)));
    assert_eq!((lb.monitor_max_retries, lb.monitor_max_retries_down, lb.max_shared_lb), (1, 3, 2));
    assert_eq!(lb.node_selector, "env=production, tier=edge");

    assert_eq!(config.classes.keys().collect::<Vec<_>>(), ["Intern", "internet"]);
    assert_eq!(config.classes["internet"].floating_subnet_tags, "zone-a,zone-b");
    assert_eq!(config.classes["internet"].floating_network_id, lb.floating_network_id);
    assert_eq!(config.classes["Intern"].subnet_id, lb.subnet_id);
    assert_eq!(config.classes["Intern"].member_subnet_id, "5bc1e5a0-6bbd-4f7e-b5b8-8d6e2a9a8b22");
}

#[derive(Deserialize)]
struct Gce {
    #[serde(rename = "Global")]
    global: GceGlobal,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GceGlobal {
    token_url: String,
    project_id: String,
    network_project_id: String,
    network_name: String,
    subnetwork_name: String,
    stack_type: String,
    node_tags: Vec<String>,
    node_instance_prefix: String,
    regional: bool,
    multizone: bool,
    api_endpoint: String,
    container_api_endpoint: Option<String>,
    local_zone: String,
    alpha_features: Vec<String>,
    token_body: Option<String>,
}

#[test]
fn gce() {
    let Loaded { config, warnings } = load::<Gce>("gce.conf", include_bytes!("testdata/gcfg/gce.conf"));
    assert_eq!(warnings, []);
    let global = config.global;
    assert_eq!((global.token_url.as_str(), global.project_id.as_str()), ("nil", "my-project"));
    assert_eq!(
        (global.network_project_id.as_str(), global.network_name.as_str()),
        ("host-project", "default")
    );
    assert_eq!((global.subnetwork_name.as_str(), global.stack_type.as_str()), ("nodes", "IPV4"));
    assert_eq!(global.node_tags, ["gke-nodes", "workers"]);
    assert_eq!(global.node_instance_prefix, "gke-blue");
    assert!(global.regional && global.multizone);
    assert_eq!(global.api_endpoint, "http://127.0.0.1:8080/compute/v1/");
    assert_eq!(global.container_api_endpoint.as_deref(), Some(""), "given, and empty");
    assert_eq!(global.token_body, None, "not given");
    assert_eq!(global.local_zone, "europe-west1-b");
    assert_eq!(global.alpha_features, ["NetworkTiers", "ILBSubsets"]);
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Vsphere {
    global: VsphereGlobal,
    virtual_center: BTreeMap<String, VsphereCenter>,
    labels: BTreeMap<String, BTreeMap<String, String>>,
    nodes: VsphereNodes,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct VsphereGlobal {
    user: String,
    password: String,
    port: u16,
    insecure_flag: bool,
    datacenters: String,
    soap_roundtrip_count: u32,
    ca_file: String,
    secret_name: String,
    secret_namespace: String,
    ip_family: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct VsphereCenter {
    user: Option<String>,
    password: Option<String>,
    port: Option<u16>,
    datacenters: String,
    thumbprint: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
#[expect(clippy::struct_field_names, reason = "the cloud's own names")]
struct VsphereNodes {
    internal_network_subnet_cidr: Option<IpNet>,
    external_network_subnet_cidr: Option<IpNet>,
    exclude_internal_network_subnet_cidr: Vec<IpNet>,
}

#[test]
fn vsphere_with_windows_line_ends() {
    let bytes = include_bytes!("testdata/gcfg/vsphere.conf");
    assert!(bytes.windows(2).any(|pair| pair == b"\r\n"), "the sample must keep its line ends");
    let Loaded { config, warnings } = load::<Vsphere>("vsphere.conf", bytes);
    assert_eq!(warnings, []);
    let global = config.global;
    assert_eq!(
        (global.user.as_str(), global.password.as_str()),
        ("administrator@vsphere.local", "pa$$;word")
    );
    assert_eq!((global.port, global.insecure_flag, global.soap_roundtrip_count), (443, true, 3));
    assert_eq!(
        (global.datacenters.as_str(), global.ca_file.as_str()),
        ("dc-north, dc-south", "/etc/ssl/vcenter.pem")
    );
    assert_eq!(
        (global.secret_name.as_str(), global.secret_namespace.as_str()),
        ("vsphere-creds", "kube-system")
    );
    assert_eq!(global.ip_family, ["ipv4"]);
    let (north, south) = (&config.virtual_center["10.0.0.1"], &config.virtual_center["vc.south.example"]);
    assert_eq!((north.user.as_deref(), north.port), (None, None));
    assert_eq!(
        (north.datacenters.as_str(), north.thumbprint.as_str()),
        ("dc-north", "3A:F1:00:11:22:33:44:55")
    );
    assert_eq!(
        (south.user.as_deref(), south.password.as_deref(), south.port),
        (Some("reader"), Some("other"), Some(8443))
    );
    assert_eq!(config.labels[""]["zone"], "k8s-zone");
    let address: IpAddr = "192.0.2.7".parse().unwrap();
    assert!(config.nodes.internal_network_subnet_cidr.is_some_and(|net| net.contains(&address)));
    assert!(config.nodes.external_network_subnet_cidr.is_some_and(|net| !net.contains(&address)));
    assert_eq!(
        config.nodes.exclude_internal_network_subnet_cidr,
        ["192.0.2.128/25".parse::<IpNet>().unwrap()]
    );
}

#[derive(Deserialize)]
struct CloudStack {
    global: CloudStackGlobal,
}

#[derive(Deserialize)]
struct CloudStackGlobal {
    api_url: String,
    api_key: String,
    secret_key: String,
    #[serde(default)]
    ssl_no_verify: bool,
    project_id: Option<String>,
    zone: Option<String>,
    region: Option<String>,
}

#[test]
fn cloudstack() {
    let Loaded { config, warnings } =
        load::<CloudStack>("cloudstack.conf", include_bytes!("testdata/gcfg/cloudstack.conf"));
    assert_eq!(warnings, []);
    let global = config.global;
    assert_eq!(global.api_url, "https://cloudstack.example:8443/client/api");
    assert_eq!(
        (global.api_key.as_str(), global.secret_key.as_str()),
        ("WNpBZ3bBm0d2Nq9tDQk5yG7Vxg", "q1w2e3r4/t5y6+u7i8==")
    );
    assert!(global.ssl_no_verify);
    assert_eq!(global.project_id.as_deref(), Some("33ea4c2d-56d3-4cf5-a0b2-2d1b1d0cf2c1"));
    assert_eq!((global.zone.as_deref(), global.region.as_deref()), (Some("Zone 1"), Some("eu")));
}

type Untyped = BTreeMap<String, BTreeMap<String, BTreeMap<String, String>>>;

#[test]
fn ovirt_and_mesos_without_structs() {
    let ovirt = load::<Untyped>("ovirt.conf", include_bytes!("testdata/gcfg/ovirt.conf")).config;
    assert_eq!(ovirt["connection"][""]["password"], "  spaces at both ends  ");
    assert_eq!(ovirt["filters"][""]["vms"], "cluster = k8s and tag = node");
    let mesos = load::<Untyped>("mesos.conf", include_bytes!("testdata/gcfg/mesos.conf")).config;
    assert_eq!(
        mesos["mesos-cloud"][""]["http-client-timeout"].parse(),
        Ok(GoDuration::from_nanos(500_000_000))
    );
    assert_eq!(mesos["mesos-cloud"][""]["state-cache-ttl"].parse(), Ok(seconds(3600)));
}

#[derive(Deserialize)]
struct Rackspace {
    global: BTreeMap<String, BTreeMap<String, String>>,
    load_balancer: RackspaceLoadBalancer,
}

#[derive(Deserialize)]
struct RackspaceLoadBalancer {
    create_monitor: bool,
    monitor_delay: GoDuration,
}

#[test]
fn rackspace_with_a_key_alone() {
    let Loaded { config, warnings } =
        load::<Rackspace>("rackspace.conf", include_bytes!("testdata/gcfg/rackspace.conf"));
    assert_eq!(warnings, []);
    assert_eq!(config.global[""]["api-key"], "0123456789abcdef");
    assert!(config.load_balancer.create_monitor);
    assert_eq!(config.load_balancer.monitor_delay, seconds(10));
}
