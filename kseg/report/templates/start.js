({ verify, summary, retention, plan })[data.kind]();
app.dataset.ready = "true";
