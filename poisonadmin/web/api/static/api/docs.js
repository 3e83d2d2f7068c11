"use strict";

const main = document.getElementById("swagger-ui");

const csrfToken = () => {
  const found = document.cookie.split("; ").find((pair) => pair.startsWith("csrftoken="));
  return found ? decodeURIComponent(found.slice("csrftoken=".length)) : "";
};

SwaggerUIBundle({
  url: main.dataset.schema,
  domNode: main,
  deepLinking: true,
  docExpansion: "list",
  filter: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    // Only to ourselves: the token must not leave with a request to anywhere else.
    if (new URL(request.url, document.baseURI).origin === location.origin) {
      request.headers["X-CSRFToken"] = csrfToken();
    }
    return request;
  },
});
