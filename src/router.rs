//! Paths that answer in problem documents also where there is nothing to answer.

use actix_web::body::{BoxBody, MessageBody};
use actix_web::dev::{AppService, HttpServiceFactory, ServiceRequest, ServiceResponse};
use actix_web::middleware::{Next, from_fn};
use actix_web::web::ServiceConfig;
use actix_web::{
    Error, FromRequest, Handler, HttpRequest, Resource, Responder, ResponseError, Route, web,
};

use crate::error::{Code, Problem};
use crate::http::query::no_parameters;

/// The routes of the app: everything that is mounted passes through here, so that it can be listed.
#[derive(Default)]
pub struct Routes {
    mounted: Vec<Methods>,
}

impl Routes {
    /// Adds a path.
    pub fn service(&mut self, path: Methods) -> &mut Self {
        self.mounted.push(path);
        self
    }

    /// Adds what a controller mounts.
    pub fn configure(&mut self, controller: impl FnOnce(&mut Self)) -> &mut Self {
        controller(self);
        self
    }

    /// Every method with its path, as they are mounted.
    pub fn list(&self) -> Vec<(&'static str, String)> {
        let paths = self.mounted.iter();
        paths
            .flat_map(|path| {
                path.methods
                    .iter()
                    .map(|method| (*method, path.path.clone()))
            })
            .collect()
    }

    /// Mounts them. They are tried in this order, three times for each request, and a path with a parameter is a regular expression: so
    /// those without come first.
    pub fn mount(mut self, config: &mut ServiceConfig) {
        self.mounted.sort_by_key(|path| path.path.contains('{'));
        for path in self.mounted {
            config.service(path);
        }
    }
}

/// A path with its methods; any other method gets a 405 with `Allow`.
pub struct Methods {
    path: String,
    resource: Resource,
    methods: Vec<&'static str>,
    allow: &'static str,
}

/// Begins a path. `allow` lists its methods.
pub fn resource(path: &str, allow: &'static str) -> Methods {
    Methods {
        path: path.to_owned(),
        resource: web::resource(path),
        methods: Vec::new(),
        allow,
    }
}

macro_rules! method {
    ($(#[$doc:meta])* $name:ident, $word:literal) => {
        $(#[$doc])*
        pub fn $name<F, Args>(self, handler: F) -> Self
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            self.route($word, web::$name().to(handler).wrap(from_fn(refuse_query)))
        }
    };
}

impl Methods {
    /// Adds data that only this path sees.
    pub fn app_data<T: 'static>(mut self, data: T) -> Self {
        self.resource = self.resource.app_data(data);
        self
    }

    method!(
        /// Answers to GET. A query string is refused.
        get,
        "GET"
    );
    method!(
        /// Answers to POST. A query string is refused.
        post,
        "POST"
    );
    method!(
        /// Answers to PATCH. A query string is refused.
        patch,
        "PATCH"
    );

    /// Answers to GET, with a query string that the handler looks at.
    pub fn get_with_query<F, Args>(self, handler: F) -> Self
    where
        F: Handler<Args>,
        Args: FromRequest + 'static,
        F::Output: Responder + 'static,
    {
        self.route("GET", web::get().to(handler))
    }

    fn route(mut self, method: &'static str, route: Route) -> Self {
        self.resource = self.resource.route(route);
        self.methods.push(method);
        self
    }
}

/// The middleware of a route without parameters. It stands behind the door: who may not call does not hear of it.
async fn refuse_query(
    request: ServiceRequest,
    next: Next<impl MessageBody + 'static>,
) -> Result<ServiceResponse<BoxBody>, Error> {
    match no_parameters(request.query_string()) {
        Ok(()) => Ok(next.call(request).await?.map_into_boxed_body()),
        Err(problem) => Ok(request.into_response(problem.error_response())),
    }
}

impl HttpServiceFactory for Methods {
    fn register(self, config: &mut AppService) {
        let allow = self.allow;
        debug_assert_eq!(self.methods.join(", "), allow, "{}", self.path);
        let refuse = move || async move {
            Err::<actix_web::HttpResponse, _>(
                Problem::new(
                    Code::MethodNotAllowed,
                    format!("This path answers to {allow} only."),
                )
                .allow(allow),
            )
        };
        self.resource
            .default_service(web::to(refuse))
            .register(config);
    }
}

/// The answer to a path that is not there.
pub async fn not_found(_request: HttpRequest) -> Result<actix_web::HttpResponse, Problem> {
    Err(Problem::new(
        Code::RouteNotFound,
        "There is nothing at this path. Check its spelling; no path ends with a slash.",
    ))
}
