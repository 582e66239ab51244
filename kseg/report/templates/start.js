({ verify, summary, image, retention, plan })[data.kind]();
app.dataset.ready = "true";
