//! The API over HTTP: the cloud as a process of its own, reached through the context's transport.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cloud_provider::context::{Access, Clock, Context, Transport, TransportError};
use cloud_provider::{Error, Permit};
use futures::future::{Either, select};
use http::{Method, Request, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::api::{Api, ApiError, Filter, Listed};
use crate::objects::{
    Address, Balancer, BalancerUpdate, Disk, Machine, NewAddress, NewBalancer, NewDisk, NewRoute, RouteEntry,
    Tags,
};
use crate::wire::{self, CLUSTER_HEADER, PERMIT_HEADER, escape};

/// A client of a `fake-cloud` process.
pub struct Remote {
    base: String,
    cluster: String,
    transport: Arc<dyn Transport>,
    clock: Arc<dyn Clock>,
    timeout: Duration,
}

impl Remote {
    /// A client for the context's cluster. Nothing is sent yet.
    pub fn new(endpoint: &str, context: &Context, timeout: Duration) -> Result<Self, Error> {
        let usable = endpoint
            .parse::<http::Uri>()
            .is_ok_and(|uri| uri.scheme_str() == Some("http") && uri.authority().is_some());
        if !usable {
            return Err(Error::invalid_config(format!(
                "reading endpoint: {endpoint:?} is not a URL such as http://127.0.0.1:4080"
            )));
        }
        Ok(Self {
            base: endpoint.trim_end_matches('/').to_owned(),
            cluster: context.cluster.id().map(ToString::to_string).unwrap_or_default(),
            transport: Arc::clone(&context.transport),
            clock: Arc::clone(&context.clock),
            timeout,
        })
    }

    /// Asks whether the cloud is there, outside its API: not counted, never slow.
    pub async fn check(&self) -> Result<(), ApiError> {
        self.read("/admin/health").await
    }

    async fn read<T: DeserializeOwned>(&self, path: &str) -> Result<T, ApiError> {
        self.send(Method::GET, path, Bytes::new(), Access::Read).await
    }

    async fn list<T: DeserializeOwned>(
        &self,
        path: &str,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<T>, ApiError> {
        self.read(&format!("{path}{}", wire::query(filter, page))).await
    }

    async fn write<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &(impl Serialize + Sync),
        permit: &Permit,
    ) -> Result<T, ApiError> {
        self.send(method, path, json(body)?, Access::Write(permit)).await
    }

    async fn send<T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        access: Access<'_>,
    ) -> Result<T, ApiError> {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.base))
            .header(CLUSTER_HEADER, &self.cluster)
            .header(http::header::CONTENT_TYPE, "application/json");
        if let Access::Write(permit) = access {
            request = request.header(PERMIT_HEADER, permit.change().verb().to_string());
        }
        let request = request.body(body).map_err(|error| ApiError::Invalid { why: error.to_string() })?;
        let answer = self.transport.send(request, access);
        match select(answer, self.clock.sleep(self.timeout)).await {
            Either::Left((Ok(response), _)) => read(&response),
            Either::Left((Err(error), _)) => Err(unanswered(&error)),
            Either::Right(_) => Err(ApiError::TimedOut),
        }
    }
}

fn json(body: &impl Serialize) -> Result<Bytes, ApiError> {
    serde_json::to_vec(body).map(Bytes::from).map_err(|error| ApiError::Invalid { why: error.to_string() })
}

fn read<T: DeserializeOwned>(response: &Response<Bytes>) -> Result<T, ApiError> {
    let unreadable = |error: serde_json::Error| ApiError::Failed {
        why: format!("its answer ({}) cannot be read: {error}", response.status()),
    };
    if response.status().is_success() {
        serde_json::from_slice(response.body()).map_err(unreadable)
    } else {
        Err(serde_json::from_slice(response.body()).unwrap_or_else(unreadable))
    }
}

fn unanswered(error: &TransportError) -> ApiError {
    match error {
        TransportError::TimedOut => ApiError::TimedOut,
        TransportError::Lost(_) => ApiError::Lost,
        TransportError::Unreachable(source) => ApiError::Unreachable { why: source.to_string() },
        other => ApiError::Unreachable { why: other.to_string() },
    }
}

#[async_trait]
impl Api for Remote {
    async fn list_instances(&self, page: Option<&str>) -> Result<Listed<Machine>, ApiError> {
        self.list("/v1/instances", &Filter::All, page).await
    }

    async fn get_instance(&self, id: &str) -> Result<Machine, ApiError> {
        self.read(&format!("/v1/instances/{}", escape(id))).await
    }

    async fn list_addresses(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Address>, ApiError> {
        self.list("/v1/addresses", filter, page).await
    }

    async fn get_address(&self, id: &str) -> Result<Address, ApiError> {
        self.read(&format!("/v1/addresses/{}", escape(id))).await
    }

    async fn create_address(&self, new: &NewAddress, permit: &Permit) -> Result<Address, ApiError> {
        self.write(Method::POST, "/v1/addresses", new, permit).await
    }

    async fn tag_address(&self, id: &str, tags: &Tags, permit: &Permit) -> Result<Address, ApiError> {
        self.write(Method::PUT, &format!("/v1/addresses/{}/tags", escape(id)), tags, permit).await
    }

    async fn delete_address(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.write(Method::DELETE, &format!("/v1/addresses/{}", escape(id)), &(), permit).await
    }

    async fn list_load_balancers(
        &self,
        filter: &Filter,
        page: Option<&str>,
    ) -> Result<Listed<Balancer>, ApiError> {
        self.list("/v1/load-balancers", filter, page).await
    }

    async fn get_load_balancer(&self, id: &str) -> Result<Balancer, ApiError> {
        self.read(&format!("/v1/load-balancers/{}", escape(id))).await
    }

    async fn create_load_balancer(&self, new: &NewBalancer, permit: &Permit) -> Result<Balancer, ApiError> {
        self.write(Method::POST, "/v1/load-balancers", new, permit).await
    }

    async fn update_load_balancer(
        &self,
        id: &str,
        update: &BalancerUpdate,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        self.write(Method::PUT, &format!("/v1/load-balancers/{}", escape(id)), update, permit).await
    }

    async fn set_backends(
        &self,
        id: &str,
        backends: &BTreeSet<String>,
        permit: &Permit,
    ) -> Result<Balancer, ApiError> {
        self.write(Method::PUT, &format!("/v1/load-balancers/{}/backends", escape(id)), backends, permit)
            .await
    }

    async fn delete_load_balancer(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.write(Method::DELETE, &format!("/v1/load-balancers/{}", escape(id)), &(), permit).await
    }

    async fn list_routes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<RouteEntry>, ApiError> {
        self.list("/v1/routes", filter, page).await
    }

    async fn create_route(&self, new: &NewRoute, permit: &Permit) -> Result<RouteEntry, ApiError> {
        self.write(Method::POST, "/v1/routes", new, permit).await
    }

    async fn delete_route(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.write(Method::DELETE, &format!("/v1/routes/{}", escape(id)), &(), permit).await
    }

    async fn list_volumes(&self, filter: &Filter, page: Option<&str>) -> Result<Listed<Disk>, ApiError> {
        self.list("/v1/volumes", filter, page).await
    }

    async fn get_volume(&self, id: &str) -> Result<Disk, ApiError> {
        self.read(&format!("/v1/volumes/{}", escape(id))).await
    }

    async fn create_volume(&self, new: &NewDisk, permit: &Permit) -> Result<Disk, ApiError> {
        self.write(Method::POST, "/v1/volumes", new, permit).await
    }

    async fn resize_volume(&self, id: &str, bytes: u64, permit: &Permit) -> Result<Disk, ApiError> {
        self.write(Method::PUT, &format!("/v1/volumes/{}/size", escape(id)), &bytes, permit).await
    }

    async fn attach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError> {
        let path = format!("/v1/volumes/{}/attachments/{}", escape(id), escape(machine));
        self.write(Method::PUT, &path, &(), permit).await
    }

    async fn detach_volume(&self, id: &str, machine: &str, permit: &Permit) -> Result<Disk, ApiError> {
        let path = format!("/v1/volumes/{}/attachments/{}", escape(id), escape(machine));
        self.write(Method::DELETE, &path, &(), permit).await
    }

    async fn delete_volume(&self, id: &str, permit: &Permit) -> Result<(), ApiError> {
        self.write(Method::DELETE, &format!("/v1/volumes/{}", escape(id)), &(), permit).await
    }

    async fn list_clusters(&self) -> Result<BTreeMap<String, String>, ApiError> {
        self.read("/v1/clusters").await
    }

    async fn adopt(&self, machines: &[Machine]) -> Result<(), ApiError> {
        // Scenery is moved by the back door, which no gate guards: no real cloud has it.
        self.send(Method::POST, "/admin/adopt", json(&machines)?, Access::Query).await
    }
}
