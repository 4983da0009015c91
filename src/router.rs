//! Paths that answer in problem documents also where there is nothing to answer.

use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::web::ServiceConfig;
use actix_web::{FromRequest, Handler, HttpRequest, Resource, Responder, web};

use crate::error::{Code, Problem};

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

    /// Mounts them.
    pub fn mount(self, config: &mut ServiceConfig) {
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
        pub fn $name<F, Args>(mut self, handler: F) -> Self
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            self.resource = self.resource.route(web::$name().to(handler));
            self.methods.push($word);
            self
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
        /// Answers to GET.
        get,
        "GET"
    );
    method!(
        /// Answers to POST.
        post,
        "POST"
    );
    method!(
        /// Answers to PATCH.
        patch,
        "PATCH"
    );
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
