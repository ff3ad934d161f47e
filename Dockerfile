# billing: one image. Its argument is the daemon or the command (serve, keeper, dispatch, migrate
# and those of an administrator).
#   docker build -t billing . && docker run --env-file billing.env billing keeper

FROM node:24-alpine AS dependencies
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --omit=dev --omit=optional --ignore-scripts
# What only editors and debuggers read.
RUN find node_modules -type f \( -name '*.map' -o -name '*.d.ts' -o -name '*.d.mts' -o -name '*.d.cts' -o -name '*.md' \) -delete
# A peer of the codecs under spl-token; nothing loads it.
RUN rm -r node_modules/typescript

FROM node:24-alpine AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY tsconfig.json ./
COPY src src
COPY scripts scripts
RUN npm run build

FROM node:24-alpine
ENV HOST=0.0.0.0 METRICS_HOST=0.0.0.0 METRICS_PORT=9464
WORKDIR /app
COPY --from=dependencies /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY package.json ./
COPY bin bin
COPY sql sql
USER node
EXPOSE 3000 9464
# One for all daemons; wget of BusyBox, because a start of Node costs a tenth of a core's second.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["sh", "-c", "wget -q -O /dev/null http://127.0.0.1:$METRICS_PORT/readyz || exit 1"]
ENTRYPOINT ["node", "--", "/app/bin/billing.js"]
CMD ["serve"]
