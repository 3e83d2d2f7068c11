"use strict";

const main = document.getElementById("swagger-ui");

const csrfToken = () => {
  const found = document.cookie.split("; ").find((pair) => /^(__Host-)?csrftoken=/.test(pair));
  return found ? decodeURIComponent(found.slice(found.indexOf("=") + 1)) : "";
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
