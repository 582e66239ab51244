({ verify, stats, cluster, retention, plan })[data.kind]();
app.dataset.ready = "true";
