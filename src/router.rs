//! Paths that answer in problem documents also where there is nothing to answer.

use actix_web::dev::{AppService, HttpServiceFactory};
use actix_web::{FromRequest, Handler, HttpRequest, Resource, Responder, web};

use crate::error::{Code, Problem};

/// A path with its methods; any other method gets a 405 with `Allow`.
pub struct Methods {
    resource: Resource,
    allow: &'static str,
}

/// Begins a path. `allow` lists its methods.
pub fn resource(path: &str, allow: &'static str) -> Methods {
    Methods {
        resource: web::resource(path),
        allow,
    }
}

macro_rules! method {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub fn $name<F, Args>(mut self, handler: F) -> Self
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            self.resource = self.resource.route(web::$name().to(handler));
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
        get
    );
    method!(
        /// Answers to POST.
        post
    );
    method!(
        /// Answers to PATCH.
        patch
    );
}

impl HttpServiceFactory for Methods {
    fn register(self, config: &mut AppService) {
        let allow = self.allow;
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
