{{/* What values.schema.json cannot say: contradictions, and settings that are values of the chart. */}}
{{- define "gatelog.checks" -}}
{{- $v := .Values }}{{- $s := $v.settings -}}
{{- $fixed := "what deploy/ fixes: ports, addresses, probes, rights and names go together there" -}}
{{- $owned := dict "cluster" "the value cluster" "mode" "the value mode" "state_dir" $fixed "serve.enabled" "the value serve.enabled" "nats.url" "the value nats.url" "database.url" "the value database.url" "lease.enabled" $fixed "lease.namespace" $fixed "health.host" $fixed "health.port" $fixed "health.cert_file" "the value metrics.tls.secretName" "health.key_file" "the value metrics.tls.secretName" "serve.host" $fixed "serve.port" $fixed "serve.cert_file" "the value serve.certificates" "serve.key_file" "the value serve.certificates" "serve.service_namespace" $fixed "serve.service_name" $fixed "webhook.enabled" "the value admission.way" "webhook.host" $fixed "webhook.port" $fixed "webhook.url" $fixed "webhook.cert_dir" "the value admission.webhook.certificates" "webhook.cert_file" "the value admission.webhook.certificates" "webhook.key_file" "the value admission.webhook.certificates" "webhook.service_namespace" $fixed "webhook.service_name" $fixed "webhook.actuator_user" $fixed "webhook.failure_policy" "the value admission.webhook.failurePolicy" "webhook.timeout_s" "the value admission.webhook.timeoutSeconds" "webhook.excluded_namespaces" "the value admission.excludedNamespaces" "webhook.manage_jobs_without_queue_name" "the value admission.everyPod" -}}
{{- range $path, $by := $owned }}
{{- $names := splitList "." $path }}{{- $in := $s }}
{{- if gt (len $names) 1 }}{{- $in = default dict (index $s (first $names)) }}{{- end }}
{{- if hasKey $in (last $names) }}{{- fail (printf "settings.%s cannot be set here: it is %s" $path $by) }}{{- end }}
{{- end }}
{{- if eq $v.profile "standalone" }}
{{- range $path, $given := dict "nats.url" (ne $v.nats.url "nats://nats:4222") "database.url" (ne $v.database.url "postgresql:///gatelog") "settings.streams.replicas" (gt (int (dig "streams" "replicas" 1 $s)) 1) }}
{{- if $given }}{{- fail (printf "%s with profile = standalone: the one pod has its log and its database on its volume; set profile=production" $path) }}{{- end }}
{{- end }}
{{- if dig "standalone" "hostNetwork" false $v.parts }}{{- fail "parts.standalone.hostNetwork: the one pod's console asks for no login, and would be on the node's loopback; set profile=production, where ingest and serve may have it" }}{{- end }}
{{- end }}
{{- $runs := ternary (lookup "apps/v1" "Deployment" .Release.Namespace "gatelog-projector") (lookup "apps/v1" "StatefulSet" .Release.Namespace "gatelog") (eq $v.profile "standalone") }}
{{- if and $runs (gt (int (dig "spec" "replicas" 1 $runs)) 0) }}
{{- $left := ternary "three deployments run here, which this would delete, with the log server and its Secret: to stay with them add -f values-production.yaml" "one pod runs here, which this would delete: to stay with it set profile=standalone" (eq $v.profile "standalone") }}
{{- fail (printf "profile = %s, but %s; to move, follow docs/upgrade.md, \"From one pod to three deployments\", which scales them to 0 first" $v.profile $left) }}
{{- end }}
{{- if include "gatelog.makesSecret" . }}
{{- $found := lookup "v1" "Secret" .Release.Namespace "gatelog-nats" }}
{{- if and $found.data (not (dig "metadata" "annotations" "gatelog.io/filled-by" "" $found)) (eq "Helm" (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" $found)) }}
{{- fail (printf "Secret gatelog-nats was made by an older chart, and this upgrade would empty it: run kubectl -n %s annotate secret gatelog-nats helm.sh/resource-policy=keep, and set nats.existingSecret=gatelog-nats" .Release.Namespace) }}
{{- end }}
{{- end }}
{{- if and (eq $v.admission.way "webhook") (eq $v.admission.webhook.certificates "self") }}
{{- $found := lookup "v1" "Secret" .Release.Namespace $v.admission.webhook.secretName }}
{{- $made := ternary (dig "data" "ca.crt" "" $found) "" (eq "Helm" (dig "metadata" "labels" "app.kubernetes.io/managed-by" "" $found)) }}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" }}
{{- range dig "webhooks" list (lookup "admissionregistration.k8s.io/v1" $kind "" "gatelog-pods") }}
{{- if and $made (eq $made (dig "clientConfig" "caBundle" "" .)) }}
{{- fail (printf "admission.webhook.certificates = self, but the API server trusts the authority alone that an older chart made (Secret %s): this upgrade would take it away, and pods that name a queue would be refused until ingest is rolled out. Keep it: run kubectl -n %s annotate secret %s helm.sh/resource-policy=keep, and set admission.webhook.certificates=secret and admission.webhook.caBundle to its ca.crt (docs/upgrade.md, \"From certificates that helm made\")" $v.admission.webhook.secretName $.Release.Namespace $v.admission.webhook.secretName) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- if and (has $v.admission.way (list "policy" "toWebhook")) (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "admission.way = %s needs Kubernetes 1.36 (MutatingAdmissionPolicy v1), and this is %s: set admission.way=webhook; helm template, which asks no cluster, takes --kube-version" $v.admission.way .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if and (eq $v.admission.way "webhook") (include "gatelog.changesOver" .) }}
{{- fail "admission.way = webhook, but policies gate pods and not all replicas serve the webhook: upgrade with admission.way=toWebhook first, wait until it is rolled out, then upgrade with admission.way=webhook" }}
{{- end }}
{{- $lease := merge (deepCopy (default dict $s.lease)) (dict "duration_s" 10 "renew_deadline_s" 7 "retry_period_s" 1.5) }}
{{- if not (and (lt (float64 $lease.retry_period_s) (float64 $lease.renew_deadline_s)) (lt (float64 $lease.renew_deadline_s) (float64 $lease.duration_s))) }}{{- fail (printf "settings.lease: retry_period_s must be less than renew_deadline_s, and that less than duration_s; they are %v, %v and %v" $lease.retry_period_s $lease.renew_deadline_s $lease.duration_s) }}{{- end }}
{{- if and $v.nats.install (ne $v.nats.url "nats://nats:4222") }}{{- fail (printf "nats.url = %s with nats.install = true: the server that the chart brings is nats://nats:4222; set nats.install=false" $v.nats.url) }}{{- end }}
{{- if and $v.nats.install (gt (int (dig "streams" "replicas" 1 $s)) 1) }}{{- fail "settings.streams.replicas with nats.install = true: the chart brings one server; point nats.url at a NATS cluster and set nats.install=false" }}{{- end }}
{{- range $path, $of := dict "admission.webhook" $v.admission.webhook "serve" $v.serve }}
{{- if and (eq $of.certificates "secret") (not $of.caBundle) (or (ne $path "serve") $v.serve.enabled) (or (eq $path "serve") (eq (include "gatelog.way" $) "webhook")) }}{{- fail (printf "%s.certificates = secret: set %s.caBundle to the authority (base64 of PEM) that signed the certificate, or the API server trusts none" $path $path) }}{{- end }}
{{- if and $of.issuerRef (ne $of.certificates "certManager") }}{{- fail (printf "%s.issuerRef is for %s.certificates = certManager, which is %s" $path $path $of.certificates) }}{{- end }}
{{- end }}
{{- if and (eq (toString $v.forecast.enabled) "true") (eq $v.mode "kueue") }}{{- fail "forecast.enabled with mode = kueue: expected starts are foretold where gatelog admits (mode=builtin)" }}{{- end }}
{{- end }}
