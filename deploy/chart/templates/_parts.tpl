{{/* Everything here works on objects of deploy/ as dictionaries, and changes them in place. */}}

{{- define "gatelog.labels" -}}
app.kubernetes.io/name: gatelog
app.kubernetes.io/part-of: gatelog
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The settings' file of the profile. */}}
{{- define "gatelog.settingsText" -}}
{{- $folder := ternary "standalone" "base" (eq .Values.profile "standalone") -}}
{{- .Files.Get (printf "files/%s/gatelog.toml" $folder) | replace "gatelog-system" .Release.Namespace }}
{{- end }}

{{/* Name of the ConfigMap with the settings: it changes with them, so that pods are rolled. */}}
{{- define "gatelog.settings" -}}
gatelog-settings-{{ include "gatelog.settingsText" . | sha256sum | trunc 10 }}
{{- end }}

{{/* What the parts are set up for: policy, webhook (toWebhook too) or none. */}}
{{- define "gatelog.way" -}}
{{ ternary "webhook" .Values.admission.way (eq .Values.admission.way "toWebhook") }}
{{- end }}

{{/* Names of the Secrets, by the names that they have in deploy/. */}}
{{- define "gatelog.secretNames" -}}
{{- $v := .Values -}}
{{- toJson (dict "gatelog-nats" (default "gatelog-nats" $v.nats.existingSecret) "gatelog-database" $v.database.existingSecret "gatelog-database-reader" (default $v.database.existingSecret $v.database.readerSecret) "gatelog-webhook-tls" $v.admission.webhook.secretName "gatelog-serve-tls" $v.serve.secretName) }}
{{- end }}

{{/* "true" where passwords and keys of the log are made in the cluster, by a Job. */}}
{{- define "gatelog.makesSecret" -}}
{{- if and (eq .Values.profile "production") .Values.nats.install (not .Values.nats.existingSecret) }}true{{ end }}
{{- end }}

{{- define "gatelog.natsSettings" -}}
gatelog-nats-server-{{ sha256sum (.Files.Get "files/components/nats/nats.conf") | trunc 10 }}
{{- end }}

{{/* Sets a variable of a container: {container, name, value}. */}}
{{- define "gatelog.setEnv" -}}
{{- $name := .name -}}
{{- $kept := list -}}
{{- range default list .container.env }}{{- if ne .name $name }}{{- $kept = append $kept . }}{{- end }}{{- end }}
{{- $_ := set .container "env" (append $kept (dict "name" $name "value" (toString .value))) -}}
{{- end }}

{{/* Values that are settings, as variables of a container: {root, container, jobs}. */}}
{{- define "gatelog.environment" -}}
{{- $v := .root.Values }}{{- $c := .container -}}
{{- include "gatelog.setEnv" (dict "container" $c "name" "HELM_RELEASE" "value" .root.Release.Name) }}
{{- if ne $v.cluster "default" }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_CLUSTER" "value" $v.cluster) }}{{- end }}
{{- if and (ne $v.mode "builtin") (or (not .job) .doctor) }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_MODE" "value" $v.mode) }}{{- end }}
{{- if ne $v.nats.url "nats://nats:4222" }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_NATS_URL" "value" $v.nats.url) }}{{- end }}
{{- if ne $v.database.url "postgresql:///gatelog" }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_DATABASE_URL" "value" $v.database.url) }}{{- end }}
{{- if ne .root.Release.Namespace "gatelog-system" }}
{{- range $name := list "WEBHOOK" "SERVE" }}
{{- include "gatelog.setEnv" (dict "container" $c "name" (printf "GATELOG_%s_SERVICE_NAMESPACE" $name) "value" $.root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- if or $v.admission.excludedNamespaces (ne .root.Release.Namespace "gatelog-system") }}
{{- $all := concat (list "kube-system" .root.Release.Namespace) $v.admission.excludedNamespaces }}
{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_WEBHOOK_EXCLUDED_NAMESPACES" "value" (join "," $all)) }}
{{- end }}
{{- if $v.admission.everyPod }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_WEBHOOK_MANAGE_JOBS_WITHOUT_QUEUE_NAME" "value" "true") }}{{- end }}
{{- range $section, $fields := $v.settings }}
{{- if kindIs "map" $fields }}
{{- range $field, $value := $fields }}
{{- include "gatelog.setEnv" (dict "container" $c "name" (printf "GATELOG_%s_%s" (upper $section) (upper $field)) "value" (ternary (join "," (default list $value)) $value (kindIs "slice" $value))) }}
{{- end }}
{{- else }}
{{- include "gatelog.setEnv" (dict "container" $c "name" (printf "GATELOG_%s" (upper $section)) "value" $fields) }}
{{- end }}
{{- end }}
{{- if $v.metrics.tls.secretName }}
{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_HEALTH_CERT_FILE" "value" "/etc/gatelog/metrics/tls.crt") }}
{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_HEALTH_KEY_FILE" "value" "/etc/gatelog/metrics/tls.key") }}
{{- end }}
{{- end }}

{{/* Mounts a volume read-only: {spec, container, name, path, source}. */}}
{{- define "gatelog.mount" -}}
{{- $_ := set .spec "volumes" (append (default list .spec.volumes) (merge (dict "name" .name) .source)) -}}
{{- $_ := set .container "volumeMounts" (append (default list .container.volumeMounts) (dict "name" .name "mountPath" .path "readOnly" true)) -}}
{{- end }}

{{/* Takes away the certificate that others made: {spec, container, part, volume}. */}}
{{- define "gatelog.selfMade" -}}
{{- $env := list }}{{- $mounts := list }}{{- $volumes := list -}}
{{- range .container.env }}{{- if not (has .name (list (printf "GATELOG_%s_CERT_FILE" $.part) (printf "GATELOG_%s_KEY_FILE" $.part))) }}{{- $env = append $env . }}{{- end }}{{- end }}
{{- range .container.volumeMounts }}{{- if ne .name $.volume }}{{- $mounts = append $mounts . }}{{- end }}{{- end }}
{{- range .spec.volumes }}{{- if ne .name $.volume }}{{- $volumes = append $volumes . }}{{- end }}{{- end }}
{{- $_ := set .container "env" $env }}{{- $_ := set .container "volumeMounts" $mounts }}{{- $_ := set .spec "volumes" $volumes -}}
{{- end }}

{{/* Name of an image: {image, tag}. */}}
{{- define "gatelog.image" -}}
{{- .image.repository }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .tag }}{{ end }}
{{- end }}

{{/* Sets the fields of one map in another, as they are; null takes a field away: {base, over}. */}}
{{- define "gatelog.over" -}}
{{- range $key, $value := .over }}
{{- if kindIs "invalid" $value }}{{- $_ := unset $.base $key }}{{- else }}{{- $_ := set $.base $key $value }}{{- end }}
{{- end }}
{{- end }}

{{/* Name of the part in `parts` that an object's component is. */}}
{{- define "gatelog.partName" -}}
{{- ternary "jobs" . (has . (list "doctor" "secrets" "uninstall")) }}
{{- end }}

{{/* Changes how a part is run, as `parts` asks: {obj, spec, container, part}. */}}
{{- define "gatelog.part" -}}
{{- $obj := .obj }}{{- $spec := .spec }}{{- $container := .container }}{{- $part := .part -}}
{{- with $part.replicas }}{{- $_ := set $obj.spec "replicas" . }}{{- end }}
{{- with $part.strategy }}{{- $_ := set $obj.spec (ternary "updateStrategy" "strategy" (eq $obj.kind "StatefulSet")) . }}{{- end }}
{{- with $part.resources }}{{- $_ := set $container "resources" . }}{{- end }}
{{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" }}
{{- with index $part $probe }}{{- $_ := set $container $probe (merge (deepCopy .) (default dict (index $container $probe))) }}{{- end }}
{{- end }}
{{- if $part.hostNetwork }}{{- $_ := set $spec "hostNetwork" true }}{{- $_ := set $spec "dnsPolicy" "ClusterFirstWithHostNet" }}{{- end }}
{{- with $part.dnsPolicy }}{{- $_ := set $spec "dnsPolicy" . }}{{- end }}
{{- end }}

{{/* What `pods` says of all pods and `parts` of this one: {template, pods, part, pullSecrets}. */}}
{{- define "gatelog.pod" -}}
{{- $template := .template }}{{- $spec := .template.spec }}{{- $pods := .pods }}{{- $part := .part -}}
{{- with merge (deepCopy (default dict $part.nodeSelector)) $pods.nodeSelector }}{{- $_ := set $spec "nodeSelector" . }}{{- end }}
{{- with concat $pods.tolerations (default list $part.tolerations) }}{{- $_ := set $spec "tolerations" . }}{{- end }}
{{- with default $pods.affinity $part.affinity }}{{- $_ := set $spec "affinity" . }}{{- end }}
{{- with default $pods.priorityClassName $part.priorityClassName }}{{- $_ := set $spec "priorityClassName" . }}{{- end }}
{{- with $pods.topologySpreadConstraints }}{{- $_ := set $spec "topologySpreadConstraints" . }}{{- end }}
{{- if hasKey $part "topologySpreadConstraints" }}{{- $_ := set $spec "topologySpreadConstraints" $part.topologySpreadConstraints }}{{- end }}
{{- if .pullSecrets }}
{{- $names := list }}{{- range .pullSecrets }}{{- $names = append $names (dict "name" .) }}{{- end }}
{{- $_ := set $spec "imagePullSecrets" $names }}
{{- end }}
{{- range $from := list $pods $part }}
{{- with $from.annotations }}{{- $_ := set $template.metadata "annotations" (merge (deepCopy .) (default dict $template.metadata.annotations)) }}{{- end }}
{{- with $from.labels }}{{- $_ := set $template.metadata "labels" (merge (deepCopy $template.metadata.labels) .) }}{{- end }}
{{- include "gatelog.over" (dict "base" $spec.securityContext "over" $from.podSecurityContext) }}
{{- range concat (default list $spec.initContainers) $spec.containers }}
{{- include "gatelog.over" (dict "base" .securityContext "over" $from.securityContext) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Adds variables and volumes to a container: {spec, container, from, volumes}. */}}
{{- define "gatelog.extra" -}}
{{- $c := .container -}}
{{- with .from.extraEnv }}{{- $_ := set $c "env" (concat (default list $c.env) .) }}{{- end }}
{{- with .from.extraVolumeMounts }}{{- $_ := set $c "volumeMounts" (concat (default list $c.volumeMounts) .) }}{{- end }}
{{- if .volumes }}{{- with .from.extraVolumes }}{{- $_ := set $.spec "volumes" (concat (default list $.spec.volumes) .) }}{{- end }}{{- end }}
{{- end }}

{{/* Gives a container its image: {container, image, part, tag}, of which `part` goes before. */}}
{{- define "gatelog.imageOf" -}}
{{- $image := pick .image "repository" "tag" "digest" "pullPolicy" -}}
{{- if or (hasKey .part "tag") (hasKey .part "repository") }}{{- $_ := unset $image "digest" }}{{- end }}
{{- include "gatelog.over" (dict "base" $image "over" .part) }}
{{- $_ := set .container "image" (include "gatelog.image" (dict "image" $image "tag" (default .tag $image.tag))) }}
{{- if ne $image.pullPolicy "IfNotPresent" }}{{- $_ := set .container "imagePullPolicy" $image.pullPolicy }}{{- end }}
{{- if and $image.digest .container.env }}{{- include "gatelog.setEnv" (dict "container" .container "name" "IMAGE_DIGEST" "value" $image.digest) }}{{- end }}
{{- end }}

{{/* Fits a Deployment, StatefulSet or Job to the values: {root, obj}. */}}
{{- define "gatelog.workload" -}}
{{- $root := .root }}{{- $v := .root.Values }}{{- $obj := .obj -}}
{{- $component := index $obj.metadata.labels "app.kubernetes.io/component" -}}
{{- $ours := ne $component "nats" }}{{- $job := eq $obj.kind "Job" -}}
{{- $part := default dict (index $v.parts (include "gatelog.partName" $component)) -}}
{{- $template := $obj.spec.template }}{{- $spec := $template.spec }}{{- $container := index $spec.containers 0 -}}
{{- if and (has $component (list "ingest" "standalone")) (eq (include "gatelog.way" $root) "webhook") }}
{{- $patch := fromYaml (.root.Files.Get "files/components/webhook/ingest.yaml") }}
{{- $more := index $patch.spec.template.spec.containers 0 }}
{{- range $key := list "env" "ports" "volumeMounts" }}{{- $_ := set $container $key (concat (index $container $key) (index $more $key)) }}{{- end }}
{{- $_ := set $spec "volumes" (concat $spec.volumes $patch.spec.template.spec.volumes) }}
{{- if eq $v.admission.webhook.certificates "self" }}
{{- include "gatelog.selfMade" (dict "spec" $spec "container" $container "part" "WEBHOOK" "volume" "webhook") }}
{{- end }}
{{- if ne (int $v.admission.webhook.timeoutSeconds) 5 }}{{- include "gatelog.setEnv" (dict "container" $container "name" "GATELOG_WEBHOOK_TIMEOUT_S" "value" $v.admission.webhook.timeoutSeconds) }}{{- end }}
{{- end }}
{{- if eq $component "standalone" }}{{- include "gatelog.standalone" (dict "root" $root "obj" $obj "spec" $spec "container" $container) }}{{- end }}
{{- if and (eq $component "serve") (eq $v.serve.certificates "self") }}{{- include "gatelog.selfMade" (dict "spec" $spec "container" $container "part" "SERVE" "volume" "certificate") }}{{- end }}
{{- include "gatelog.part" (dict "obj" $obj "spec" $spec "container" $container "part" $part) }}
{{- include "gatelog.pod" (dict "template" $template "pods" $v.pods "part" $part "pullSecrets" $v.image.pullSecrets) }}
{{- $image := default dict $part.image }}
{{- if $ours }}
{{- $all := concat (default list $spec.initContainers) $spec.containers }}
{{- range $i, $one := $all }}
{{- if $one.env }}{{- include "gatelog.environment" (dict "root" $root "container" $one "job" (or $job (ne $one.name $container.name)) "doctor" (eq $component "doctor")) }}{{- end }}
{{- include "gatelog.imageOf" (dict "container" $one "image" $v.image "part" $image "tag" $root.Chart.AppVersion) }}
{{- range $from := list $v.pods $part }}{{- include "gatelog.extra" (dict "spec" $spec "container" $one "from" $from "volumes" (eq $i 0)) }}{{- end }}
{{- end }}
{{- if and $v.metrics.tls.secretName (not $job) }}
{{- include "gatelog.mount" (dict "spec" $spec "container" $container "name" "metrics" "path" "/etc/gatelog/metrics" "source" (dict "secret" (dict "secretName" $v.metrics.tls.secretName "defaultMode" 288))) }}
{{- range $probe := list "livenessProbe" "readinessProbe" "startupProbe" }}{{- with index $container $probe }}{{- $_ := set .httpGet "scheme" "HTTPS" }}{{- end }}{{- end }}
{{- $_ := set $template.metadata.annotations "prometheus.io/scheme" "https" }}
{{- end }}
{{- else }}
{{- include "gatelog.imageOf" (dict "container" $container "image" $v.nats.image "part" $image "tag" "") }}
{{- include "gatelog.extra" (dict "spec" $spec "container" $container "from" $part "volumes" true) }}
{{- range $obj.spec.volumeClaimTemplates }}
{{- $_ := set .spec.resources.requests "storage" $v.nats.storage.size }}
{{- if $v.nats.storage.className }}{{- $_ := set .spec "storageClassName" $v.nats.storage.className }}{{- end }}
{{- end }}
{{- end }}
{{- range $spec.volumes }}
{{- if .configMap }}
{{- if eq .configMap.name "gatelog-settings" }}{{- $_ := set .configMap "name" (include "gatelog.settings" $root) }}{{- end }}
{{- if eq .configMap.name "gatelog-nats-server" }}{{- $_ := set .configMap "name" (include "gatelog.natsSettings" $root) }}{{- end }}
{{- end }}
{{- if .secret }}
{{- $_ := set .secret "secretName" (get (fromJson (include "gatelog.secretNames" $root)) .secret.secretName | default .secret.secretName) }}
{{- end }}
{{- end }}
{{- end }}

{{/* Names the Job that fills a Secret after what it does: a Job cannot be changed. {obj} */}}
{{- define "gatelog.jobName" -}}
{{- $_ := set .obj.metadata "name" (printf "%s-%s" .obj.metadata.name (toJson .obj.spec | sha256sum | trunc 8)) }}
{{- end }}

{{/* Fits the one pod of the profile standalone: {root, obj, spec, container}. */}}
{{- define "gatelog.standalone" -}}
{{- $v := .root.Values }}{{- $c := .container }}{{- $storage := $v.standalone.storage -}}
{{- if not $v.serve.enabled }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_SERVE_ENABLED" "value" "false") }}
{{- else if ne $v.serve.certificates "self" }}
{{- range $what := list "cert" "key" }}{{- include "gatelog.setEnv" (dict "container" $c "name" (printf "GATELOG_SERVE_%s_FILE" (upper $what)) "value" (printf "/etc/gatelog/serve/tls.%s" (ternary "crt" "key" (eq $what "cert")))) }}{{- end }}
{{- include "gatelog.mount" (dict "spec" .spec "container" $c "name" "certificate" "path" "/etc/gatelog/serve" "source" (dict "secret" (dict "secretName" "gatelog-serve-tls" "defaultMode" 288))) }}
{{- end }}
{{- if not $v.forecast.enabled }}{{- include "gatelog.setEnv" (dict "container" $c "name" "GATELOG_FORECAST_INTERVAL_S" "value" "0") }}{{- end }}
{{- if $storage.emptyDir }}
{{- $_ := unset .obj.spec "volumeClaimTemplates" }}
{{- $_ := set .spec "volumes" (append .spec.volumes (dict "name" "state" "emptyDir" (dict "sizeLimit" $storage.size))) }}
{{- end }}
{{- range .obj.spec.volumeClaimTemplates }}
{{- $_ := set .spec.resources.requests "storage" $storage.size }}
{{- if $storage.className }}{{- $_ := set .spec "storageClassName" $storage.className }}{{- end }}
{{- end }}
{{- end }}

{{/* "true" in an upgrade where policies gate pods and some pod does not serve the webhook yet. */}}
{{- define "gatelog.changesOver" -}}
{{- if .Release.IsUpgrade }}
{{- $ingest := ternary (lookup "apps/v1" "StatefulSet" .Release.Namespace "gatelog") (lookup "apps/v1" "Deployment" .Release.Namespace "gatelog-ingest") (eq .Values.profile "standalone") }}
{{- $status := dig "status" dict $ingest }}{{- $count := int (default 0 $status.replicas) }}{{- $serves := false -}}
{{- range dig "spec" "template" "spec" "containers" list $ingest }}{{- range .ports }}{{- if eq .name "webhook" }}{{- $serves = true }}{{- end }}{{- end }}{{- end }}
{{- range list $status.updatedReplicas $status.readyReplicas }}{{- if or (lt (int (default 0 .)) $count) (not $count) }}{{- $serves = false }}{{- end }}{{- end }}
{{- if and (not $serves) (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy") (lookup "admissionregistration.k8s.io/v1" "MutatingAdmissionPolicy" "" "gatelog-queued-pods") }}true{{ end }}
{{- end }}
{{- end }}

{{/* Fits a policy to mode and namespaces: {root, obj}. */}}
{{- define "gatelog.policy" -}}
{{- $v := .root.Values }}{{- $spec := .obj.spec }}{{- $name := .obj.metadata.name -}}
{{- if eq $name "gatelog-queued-pods" }}
{{- $conditions := list }}
{{- range $i, $condition := $spec.matchConditions }}
{{- if and (eq $i 0) $v.admission.everyPod }}
{{- $conditions = append $conditions (dict "name" "every-pod" "expression" "true") }}
{{- else if not (and (eq $v.mode "builtin") (eq $condition.name "owner-is-not-queued")) }}
{{- if and (eq $v.mode "builtin") (eq $condition.name "lacks-something") }}
{{- $_ := set $condition "expression" (replace ", 'kueue.x-k8s.io/topology'" "" $condition.expression) }}
{{- end }}
{{- $conditions = append $conditions $condition }}
{{- end }}
{{- end }}
{{- $_ := set $spec "matchConditions" $conditions }}
{{- range $spec.variables }}
{{- if or (and (eq $v.mode "builtin") (eq .name "topologyGate")) (and $v.admission.everyPod (eq .name "gatesAlone")) }}{{- $_ := set . "expression" "false" }}{{- end }}
{{- if eq .name "ownedGroups" }}{{- $kinds := list }}{{- range dig "queueing" "owned_groups" list $v.settings }}{{- $kinds = append $kinds (printf "'%s'" .) }}{{- end }}{{- $_ := set . "expression" (printf "[%s]" (join ", " $kinds)) }}{{- end }}
{{- if eq .name "untracked" }}{{- $_ := set . "expression" (eq (dig "actuator" "managed_fields" "keep" $v.settings) "clear" | toString) }}{{- end }}
{{- end }}
{{- end }}
{{- if eq $name "gatelog-pods" }}
{{- $most := int (dig "queueing" "termination_grace_max_s" 86400 $v.settings) | toString }}
{{- range concat $spec.matchConditions $spec.validations }}
{{- $_ := set . "expression" (replace "86400" $most .expression) }}
{{- if .message }}{{- $_ := set . "message" (replace "86400" $most .message) }}{{- end }}
{{- end }}
{{- end }}
{{- if and (eq $name "gatelog-owner-labels") (eq $v.mode "builtin") }}
{{- $rule := dict "apiGroups" (list "batch") "apiVersions" (list "v1") "operations" (list "CREATE") "resources" (list "jobs") "scope" "Namespaced" }}
{{- $_ := set $spec.matchConstraints "resourceRules" (append $spec.matchConstraints.resourceRules $rule) }}
{{- end }}
{{- include "gatelog.excluded" (dict "root" .root "selector" (default dict $spec.matchConstraints.namespaceSelector)) }}
{{- end }}

{{/* Adds the namespaces that are left alone to a selector that leaves some alone: {root, selector}. */}}
{{- define "gatelog.excluded" -}}
{{- range default list .selector.matchExpressions }}
{{- if and (eq .key "kubernetes.io/metadata.name") (eq .operator "NotIn") }}{{- $_ := set . "values" (concat .values $.root.Values.admission.excludedNamespaces) }}{{- end }}
{{- end }}
{{- end }}

{{/* Fits a network policy: {root, obj}. */}}
{{- define "gatelog.networkPolicy" -}}
{{- $v := .root.Values.networkPolicies }}{{- $spec := .obj.spec -}}
{{- range default list $spec.ingress }}
{{- $port := int (index .ports 0).port }}
{{- if eq $port 8081 }}{{- $_ := set . "from" $v.metricsFrom }}{{- end }}
{{- if and (or (eq $port 9443) (eq $port 8443)) $v.webhookFrom }}{{- $_ := set . "from" $v.webhookFrom }}{{- end }}
{{- end }}
{{- range default list $spec.egress }}
{{- $what := get (dict "53" "dns" "443" "apiServer" "4222" "log" "5432" "database") (toString (index .ports 0).port) }}
{{- $value := index $v $what }}{{- $ports := list -}}
{{- range default (fromJsonArray (include (printf "gatelog.%sPorts" $what) $.root)) $value.ports }}
{{- if eq $what "dns" }}{{- $ports = append $ports (dict "protocol" "UDP" "port" (int .)) }}{{- end }}
{{- $ports = append $ports (dict "protocol" "TCP" "port" (int .)) }}
{{- end }}
{{- $_ := set . "ports" $ports }}
{{- if or $value.to (eq $what "dns") }}{{- $_ := set . "to" $value.to }}{{- end }}
{{- end }}
{{- end }}

{{- define "gatelog.dnsPorts" }}[53]{{- end }}
{{- define "gatelog.apiServerPorts" }}[443, 6443]{{- end }}

{{/* Ports of the log's servers. */}}
{{- define "gatelog.logPorts" -}}
{{- $ports := list -}}
{{- range splitList "," .Values.nats.url }}{{- $ports = append $ports (default "4222" (regexFind ":[0-9]+$" (trimSuffix "/" .) | trimPrefix ":")) }}{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}

{{/* Ports of the database's hosts: postgresql://user@host:port,host:port/name?port=... */}}
{{- define "gatelog.databasePorts" -}}
{{- $ports := compact (splitList "," (regexFind "[?&]port=[0-9,]+" .Values.database.url | regexFind "[0-9,]+$")) -}}
{{- $hosts := regexReplaceAll "^postgresql://([^/@]*@)?([^/?]*).*$" .Values.database.url "${2}" }}
{{- if not $ports }}{{- range splitList "," $hosts }}{{- $ports = append $ports (default "5432" (regexFind ":[0-9]+$" . | trimPrefix ":")) }}{{- end }}{{- end }}
{{- toJson (uniq $ports) }}
{{- end }}

{{/* Annotates a ServiceAccount as its part asks; the one pod's is the actuator's: {root, obj}. */}}
{{- define "gatelog.account" -}}
{{- $v := .root.Values }}{{- $part := include "gatelog.partName" (trimPrefix "gatelog-" .obj.metadata.name) -}}
{{- if and (eq $v.profile "standalone") (eq $part "actuator") }}{{- $part = "standalone" }}{{- end }}
{{- $own := get (default dict (index $v.parts $part)) "serviceAccountAnnotations" }}
{{- with merge (deepCopy (default dict $own)) $v.pods.serviceAccountAnnotations (default dict .obj.metadata.annotations) }}{{- $_ := set $.obj.metadata "annotations" . }}{{- end }}
{{- end }}

{{/* Sets the address families of a Service: {root, obj}. */}}
{{- define "gatelog.service" -}}
{{- with .root.Values.services.ipFamilyPolicy }}{{- $_ := set $.obj.spec "ipFamilyPolicy" . }}{{- end }}
{{- with .root.Values.services.ipFamilies }}{{- $_ := set $.obj.spec "ipFamilies" . }}{{- end }}
{{- end }}

{{/* Names the Lease of the cluster in a Role: {root, obj}. */}}
{{- define "gatelog.lease" -}}
{{- $part := trimSuffix "-lease" .obj.metadata.name }}
{{- $names := list (printf "%s-%s%s" $part .root.Values.cluster (ternary "-0" "" (eq $part "gatelog-projector"))) }}
{{- range .obj.rules }}{{- if hasKey . "resourceNames" }}{{- $_ := set . "resourceNames" $names }}{{- end }}{{- end }}
{{- end }}

{{/* Fits any object, "" where values say that it is not wanted: {root, obj}. */}}
{{- define "gatelog.fitted" -}}
{{- $root := .root }}{{- $v := .root.Values }}{{- $obj := .obj }}{{- $kind := .obj.kind -}}
{{- $wanted := true -}}
{{- if has $kind (list "Deployment" "StatefulSet" "Job") }}{{- include "gatelog.workload" . }}{{- end }}
{{- if eq $kind "Job" }}{{- include "gatelog.jobName" . }}{{- end }}
{{- if and (eq $kind "PodDisruptionBudget") (not $v.podDisruptionBudgets.enabled) }}{{- $wanted = false }}{{- end }}
{{- if eq $kind "NetworkPolicy" }}{{- $wanted = $v.networkPolicies.enabled }}{{- include "gatelog.networkPolicy" . }}{{- end }}
{{- if has $kind (list "MutatingAdmissionPolicy" "ValidatingAdmissionPolicy") }}{{- include "gatelog.policy" . }}{{- end }}
{{- if eq $kind "CustomResourceDefinition" }}{{- $_ := set $obj.metadata "annotations" (merge (dict "helm.sh/resource-policy" "keep") (default dict $obj.metadata.annotations)) }}{{- end }}
{{- if has $kind (list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration") }}
{{- $hook := $v.admission.webhook }}
{{- $bundle := ternary $hook.caBundle "" (eq $hook.certificates "secret") }}
{{- if ne $hook.certificates "certManager" }}{{- $_ := unset $obj.metadata "annotations" }}{{- end }}
{{- range $obj.webhooks }}
{{- if $bundle }}{{- $_ := set .clientConfig "caBundle" $bundle }}{{- end }}
{{- if or (eq .failurePolicy "Fail") $v.admission.everyPod }}{{- $_ := set . "failurePolicy" $hook.failurePolicy }}{{- $_ := set . "timeoutSeconds" $hook.timeoutSeconds }}{{- end }}
{{- /* Policies gate: till it is served, and the API server trusts it, no pod waits for it. */}}
{{- if eq $v.admission.way "toWebhook" }}{{- $_ := set . "failurePolicy" "Ignore" }}{{- end }}
{{- include "gatelog.excluded" (dict "root" $root "selector" (default dict .namespaceSelector)) }}
{{- end }}
{{- end }}
{{- if has $kind (list "Certificate" "Issuer") }}
{{- $of := ternary $v.serve $v.admission.webhook (eq $obj.metadata.name "gatelog-serve") }}
{{- if eq $kind "Issuer" }}{{- $wanted = not $of.issuerRef }}{{- else }}{{- $_ := set $obj.spec "secretName" $of.secretName }}{{- with $of.issuerRef }}{{- $_ := set $obj.spec "issuerRef" . }}{{- end }}{{- end }}
{{- end }}
{{- if and (eq $v.profile "standalone") (has $kind (list "ClusterRoleBinding" "RoleBinding")) }}
{{- range $obj.subjects }}{{- if has .name (list "gatelog-ingest" "gatelog-serve") }}{{- $_ := set . "name" "gatelog-actuator" }}{{- end }}{{- end }}
{{- end }}
{{- if and (eq $kind "Service") (eq $obj.metadata.name "gatelog-webhook") (eq $v.profile "standalone") }}
{{- /* The pod's readiness is that of all its parts: a slow console must not take the webhook away. */}}
{{- $_ := set $obj.spec.selector "app.kubernetes.io/component" "standalone" }}{{- $_ := set $obj.spec "publishNotReadyAddresses" true }}
{{- end }}
{{- if and (eq $kind "Role") (has $obj.metadata.name (list "gatelog-ingest-lease" "gatelog-projector-lease")) }}{{- include "gatelog.lease" . }}{{- end }}
{{- if eq $kind "APIService" }}
{{- if and (eq $v.mode "kueue") (contains "visibility" $obj.metadata.name) }}{{- $wanted = false }}{{- end }}
{{- if eq $v.serve.certificates "secret" }}{{- $_ := set $obj.spec "caBundle" $v.serve.caBundle }}{{- end }}
{{- if ne $v.serve.certificates "certManager" }}{{- $_ := unset $obj.metadata "annotations" }}{{- end }}
{{- end }}
{{- if eq $kind "ServiceAccount" }}{{- include "gatelog.account" . }}{{- end }}
{{- if eq $kind "Service" }}{{- include "gatelog.service" . }}{{- end }}
{{- if eq $kind "PrometheusRule" }}{{- $_ := set $obj.metadata "labels" (merge (dict "app.kubernetes.io/name" "gatelog") $v.metrics.rules.labels) }}{{- end }}
{{- if $wanted }}
{{- $wide := list "Namespace" "ClusterRole" "ClusterRoleBinding" "CustomResourceDefinition" "APIService" "MutatingAdmissionPolicy" "MutatingAdmissionPolicyBinding" "ValidatingAdmissionPolicy" "ValidatingAdmissionPolicyBinding" "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" }}
{{- if not (or (has $kind $wide) $obj.metadata.namespace) }}{{- $_ := set $obj.metadata "namespace" $root.Release.Namespace }}{{- end }}
{{- $_ := set $obj.metadata "labels" (merge (fromYaml (include "gatelog.labels" $root)) (default dict $obj.metadata.labels)) }}
---
{{ toYaml $obj }}
{{- end }}
{{- end }}

{{/* A Job of deploy/ with its rights as a hook of helm: {root, component, hook, args}. */}}
{{- define "gatelog.hook" -}}
{{- $root := .root }}{{- $component := .component }}{{- $hook := .hook }}{{- $args := .args -}}
{{- range $file := list "access.yaml" "job.yaml" }}
{{- range splitList "\n---\n" ($root.Files.Get (printf "files/%s/%s" $component $file) | replace "gatelog-system" $root.Release.Namespace) }}
{{- $obj := fromYaml . }}
{{- if and $obj (or (ne $obj.kind "NetworkPolicy") $root.Values.networkPolicies.enabled) }}
{{- $_ := set $obj.metadata "labels" (merge (dict "app.kubernetes.io/component" $component) (fromYaml (include "gatelog.labels" $root))) }}
{{- $weight := ternary "5" "0" (eq $obj.kind "Job") }}
{{- $_ := set $obj.metadata "annotations" (dict "helm.sh/hook" $hook "helm.sh/hook-weight" $weight "helm.sh/hook-delete-policy" "before-hook-creation,hook-succeeded") }}
{{- if not (hasPrefix "Cluster" $obj.kind) }}{{- $_ := set $obj.metadata "namespace" $root.Release.Namespace }}{{- end }}
{{- if eq $obj.kind "NetworkPolicy" }}{{- include "gatelog.networkPolicy" (dict "root" $root "obj" $obj) }}{{- end }}
{{- if eq $obj.kind "ServiceAccount" }}{{- include "gatelog.account" (dict "root" $root "obj" $obj) }}{{- end }}
{{- if eq $obj.kind "Job" }}
{{- include "gatelog.workload" (dict "root" $root "obj" $obj) }}
{{- $_ := set (index $obj.spec.template.spec.containers 0) "args" $args }}
{{- $_ := set $obj.metadata "name" (printf "gatelog-%s" $component) }}
{{- end }}
---
{{ toYaml $obj }}
{{ end }}
{{- end }}
{{- end }}
{{- end }}
