{{- define "poisonadmin.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "poisonadmin.fullname" -}}
{{- $name := include "poisonadmin.name" . }}
{{- if .Values.fullnameOverride }}{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "poisonadmin.releaseLabels" -}}
app.kubernetes.io/name: {{ include "poisonadmin.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* These and those below take the chart's root and a component: (list $ "web"). */}}
{{- define "poisonadmin.selectorLabels" -}}
{{ include "poisonadmin.releaseLabels" (first .) }}
app.kubernetes.io/component: {{ last . }}
{{- end }}

{{- define "poisonadmin.labels" -}}
{{- $root := first . -}}
{{ include "poisonadmin.selectorLabels" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: poisonadmin
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "poisonadmin.metadata" -}}
name: {{ include "poisonadmin.fullname" (first .) }}-{{ last . }}
labels:
  {{- include "poisonadmin.labels" . | nindent 2 }}
{{- end }}

{{- define "poisonadmin.image" -}}
{{- with .Values.image }}
{{- .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The commands of docker-compose.yml; a test compares them. */}}
{{- define "poisonadmin.commands" -}}
{{- $celery := "python -m celery --quiet -A workers.celery_app" }}
{{- $options := "--loglevel=WARNING --without-gossip --without-mingle --without-heartbeat" -}}
web: python -m poisonadmin.serve --host 0.0.0.0 --port 8000
beat: {{ $celery }} beat -s /var/lib/poisonadmin/beat-schedule
io: {{ $celery }} worker -Q io -n io@%h {{ $options }} --pool=threads --concurrency 2
{{- range list "spark-redelivery" "spark-batch" }}
{{ . }}: {{ $celery }} worker -Q {{ . }} -n {{ . }}@%h {{ $options }} --pool=solo
{{- end }}
{{- end }}

{{/* Each secret: its variable, its file, and the components that read it; all of them, where none is named. */}}
{{- define "poisonadmin.secrets" -}}
databaseUrl: {variable: DATABASE_URL_FILE, file: database-url}
webDatabaseUrl: {variable: DATABASE_URL_FILE, file: web-database-url, for: [web]}
redisUrl: {variable: REDIS_URL_FILE, file: redis-url}
secretKey: {variable: POISONADMIN_SECRET_KEY_FILE, file: secret-key}
encryptionKeys: {variable: POISONADMIN_ENCRYPTION_KEYS_FILE, file: encryption-keys}
awsCredentials: {variable: AWS_SHARED_CREDENTIALS_FILE, file: aws-credentials}
migrationDatabaseUrl: {variable: MIGRATION_DATABASE_URL_FILE, file: migration-database-url, for: [migrate]}
sparkRemote: {variable: SPARK_REMOTE_FILE, file: spark-remote, for: [spark-redelivery, spark-batch]}
sparkDefaults: {variable: SPARK_CONF_DIR, file: spark/spark-defaults.conf, for: [spark-redelivery, spark-batch]}
mailUrl: {variable: POISONADMIN_MAIL_URL_FILE, file: mail-url, for: [web, io]}
oidcClientSecret: {variable: POISONADMIN_OIDC_CLIENT_SECRET_FILE, file: oidc-client-secret, for: [web]}
{{- end }}

{{/* The variables of a component and their values. What `settings` says wins over what follows from other values. */}}
{{- define "poisonadmin.variables" -}}
{{- $root := first . }}{{- $component := last . }}{{- $values := $root.Values }}
{{- $name := include "poisonadmin.fullname" $root }}
{{- $variables := dict "POISONADMIN_HOME" "/var/lib/poisonadmin" }}
{{- $hosts := list $name (printf "%s.%s" $name $root.Release.Namespace) (printf "%s.%s.svc" $name $root.Release.Namespace) }}
{{- with $values.ingress }}{{- if .enabled }}
  {{- $hosts = concat .hosts $hosts }}
  {{- $scheme := ternary "https" "http" .tls }}
  {{- $_ := set $variables "POISONADMIN_BEHIND_TLS" (toString .tls) }}
  {{- $_ := set $variables "POISONADMIN_TRUSTED_ORIGINS" (printf "%s://%s" $scheme (join (printf ",%s://" $scheme) .hosts)) }}
  {{- $_ := set $variables "POISONADMIN_TRUSTED_PROXIES" (join "," .trustedProxies) }}
  {{- $_ := set $variables "POISONADMIN_PUBLIC_URL" (printf "%s://%s" $scheme (first .hosts)) }}
{{- end }}{{- end }}
{{- $_ := set $variables "POISONADMIN_ALLOWED_HOSTS" (join "," $hosts) }}
{{- range $setting, $value := $values.settings }}{{- $_ := set $variables $setting (toString $value) }}{{- end }}
{{- /* The probes ask for this one. */}}
{{- $_ := set $variables "POISONADMIN_ALLOWED_HOSTS" (printf "%s,localhost" $variables.POISONADMIN_ALLOWED_HOSTS) }}
{{- if eq $component "web" }}{{- $_ := set $variables "POISONADMIN_DB_POOL" "true" }}
{{- else if ne $component "migrate" }}{{- $_ := set $variables "POISONADMIN_ALIVE_FILE" "/tmp/alive" }}{{- end }}
{{- if hasPrefix "spark-" $component }}
  {{- $_ := set $variables "SPARK_LOCAL_DIRS" "/var/lib/poisonadmin/spark" }}
  {{- if not $values.secrets.sparkRemote.existingSecret }}
    {{- $_ := set $variables "SPARK_MASTER" (default "local[12,4]" $values.spark.master) }}
  {{- end }}
{{- end }}
{{- range $secret, $where := include "poisonadmin.secrets" $root | fromYaml }}
  {{- if and (index $values.secrets $secret).existingSecret (has $component (default (list $component) $where.for)) }}
    {{- /* A directory without other files: Spark on Kubernetes copies what is beside its settings to a ConfigMap. */}}
    {{- $file := trimSuffix "/spark-defaults.conf" $where.file }}
    {{- $_ := set $variables $where.variable (printf "/run/secrets/poisonadmin/%s" $file) }}
  {{- end }}
{{- end }}
{{- toYaml $variables }}
{{- end }}

{{/* What the pods of a component have in common, and their container up to its command. */}}
{{- define "poisonadmin.pod" -}}
{{- $root := first . }}{{- $component := last . }}{{- $values := $root.Values }}
{{- $isOnKubernetes := and (hasPrefix "spark-" $component) (hasPrefix "k8s://" $values.spark.master) -}}
serviceAccountName: {{ $values.serviceAccountName }}
automountServiceAccountToken: {{ $isOnKubernetes }}
# As `init: true` of docker-compose.yml: processes that lost their parent are reaped.
shareProcessNamespace: true
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ $values.user }}
  runAsGroup: {{ $values.user }}
  fsGroup: {{ $values.user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with $values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with $values.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with $values.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
volumes:
  - name: tmp
    emptyDir: {medium: Memory}
  - name: home
    {{- $values.home | default (dict "emptyDir" dict) | toYaml | nindent 4 }}
  - name: secrets
    projected:
      defaultMode: 0440
      sources:
        {{- range $secret, $where := include "poisonadmin.secrets" $root | fromYaml }}
        {{- $given := index $values.secrets $secret }}
        {{- if and $given.existingSecret (has $component (default (list $component) $where.for)) }}
        - secret: {name: {{ $given.existingSecret }}, items: [{key: {{ $given.key }}, path: {{ $where.file }}}]}
        {{- end }}
        {{- end }}
  {{- with $values.volumes }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "poisonadmin.container" -}}
{{- $root := first . }}{{- $component := last . }}{{- $values := $root.Values -}}
image: {{ include "poisonadmin.image" $root | quote }}
imagePullPolicy: {{ $values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  {{- if and (hasPrefix "spark-" $component) $values.spark.master (not (hasPrefix "local" $values.spark.master)) }}
  # By this address the executors find the driver.
  - {name: SPARK_LOCAL_HOSTNAME, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
  {{- end }}
  {{- range $name, $value := include "poisonadmin.variables" . | fromYaml }}
  - {name: {{ $name }}, value: {{ quote $value }}}
  {{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  - {name: home, mountPath: /var/lib/poisonadmin}
  - {name: secrets, mountPath: /run/secrets/poisonadmin, readOnly: true}
  {{- with $values.volumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* What no schema can say: each sentence names the values. */}}
{{- define "poisonadmin.check" -}}
{{- with .Values }}
{{- if and .spark.master .secrets.sparkRemote.existingSecret }}
  {{- fail "spark.master and secrets.sparkRemote are both set: keep one" }}
{{- end }}
{{- if .ingress.enabled }}
  {{- if not .ingress.hosts }}{{ fail "ingress.hosts is empty: name the hosts of the dashboard" }}{{ end }}
  {{- if not (or .ingress.trustedProxies .settings.POISONADMIN_TRUSTED_PROXIES) }}
    {{- fail "ingress.trustedProxies is empty: name the networks of the ingress controller's pods" }}
  {{- end }}
  {{- if and .networkPolicy.enabled (not .networkPolicy.ingressFrom) }}
    {{- fail "networkPolicy.ingressFrom is empty: name the namespace of the ingress controller" }}
  {{- end }}
{{- else if .serviceMonitor.enabled }}
  {{- fail "serviceMonitor.enabled needs ingress.enabled: /metrics is asked at its first host" }}
{{- end }}
{{- end }}
{{- end }}
