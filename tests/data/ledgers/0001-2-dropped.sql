BEGIN TRANSACTION;
CREATE TABLE alembic_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE attach (
  attach TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  first_seq INTEGER NOT NULL,
  decided_ns INTEGER NOT NULL,
  launch TEXT NOT NULL,
  rank INTEGER NOT NULL,
  world INTEGER NOT NULL,
  host TEXT NOT NULL,
  engine TEXT NOT NULL,
  engine_version TEXT NOT NULL,
  uid INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  residency TEXT,
  kind TEXT NOT NULL,
  device TEXT NOT NULL,
  decision TEXT NOT NULL,
  reason TEXT,
  detail TEXT NOT NULL,
  tier TEXT,
  asked_digest TEXT,
  asked_key TEXT,
  asked_commit TEXT,
  served_digest TEXT,
  served_commit TEXT,
  mode TEXT,
  state TEXT NOT NULL,
  proof TEXT,
  proof_seq INTEGER,
  ended_ns INTEGER,
  mapped_bytes INTEGER,
  copied_bytes INTEGER,
  map_ms REAL,
  fallback_bytes INTEGER,
  fallback_s REAL,
  idle_bytes INTEGER,
  policy TEXT NOT NULL,
  evidence TEXT NOT NULL,
  decided_by TEXT NOT NULL
) STRICT;
INSERT INTO "attach" VALUES('a-2',13,13,1795986724940083635,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','refuted',16,1795986724940093184,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-3',18,18,1795986724940095667,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986724984110132,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-5',25,25,1795986724940110846,'l-1',0,2,'[redacted]','test','1',0,'[redacted]','r-2','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unprovable',46,1795986724940117964,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-6',35,35,1795986724964012268,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','ended','unproven',NULL,1795986725319347255,1000,0,0.5,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
INSERT INTO "attach" VALUES('a-7',41,41,1795986724984113233,'l-1',0,2,'node','test','1',0,'/models/base','r-1','raw','cpu','hit',NULL,'','pinned','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','c0ffee','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','c0ffee','zero_copy','granted','unproven',NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,'ecbf1c02a252e835d08fab320a8a85fd','[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}]','server');
CREATE TABLE contradiction (
  seq INTEGER NOT NULL PRIMARY KEY,
  asked_key TEXT NOT NULL,
  weights_digest TEXT NOT NULL,
  spellings TEXT NOT NULL
) STRICT;
INSERT INTO "contradiction" VALUES(16,'fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','["/models/base"]');
CREATE TABLE event (
  seq INTEGER NOT NULL PRIMARY KEY,
  stream TEXT NOT NULL,
  version INTEGER NOT NULL,
  event_id TEXT NOT NULL UNIQUE,
  type TEXT NOT NULL,
  schema INTEGER NOT NULL,
  occurred_ns INTEGER NOT NULL,
  recorded_ns INTEGER NOT NULL,
  late INTEGER NOT NULL CHECK (late IN (0, 1)),
  payload TEXT,
  salt BLOB,
  payload_hash BLOB NOT NULL CHECK (length(payload_hash) = 32),
  chain BLOB NOT NULL CHECK (length(chain) = 32),
  UNIQUE (stream, version)
) STRICT;
INSERT INTO "event" VALUES(39,'ledger',5,'8a77242605a043dea077361e1ae8f67b','segment.opened',1,1795986724972539980,1795986724972580851,0,'{"state":{"attach/a-3":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"attach/a-6":[3,"{\"state\":\"mapped\",\"outcome\":\"hit\",\"arrived\":true,\"proof\":\"unproven\"}"],"daemon/d-1":[1,""],"residency/r-1":[2,"resident"],"trust/g-1":[1,"active"]},"size":38,"root":"80d938480f4428993adde645a1432ced82732f39c7eddd200e1de064b89af508","frontier":["50db00f2bc92d2b30f456a93af474642d482185d87078eb39f30152d103c4ddd","6b1c31419816b7bcf036338ee14827c9fd4210b26161bc20681f33e61db5f5d3","252091b4825f509cbc58d2c7268f1f9bf3c8bf7196d1ac162354915e90181be6"],"chain":"e096990e344419c521bec5c39d0d87f7711041e6b8acbbd121e2701cf450fca7","origin":"1a01041dbf623c369f0761d3b88e5133"}',X'1B0903EC1A179CF3719AAB49B0C16DDD',X'4F2EB9DE1D22FCF182EDFFF225AB73BA82B2AE9F484DDFC94E7EAEAC31807CA5',X'48991BA705098C695E34B69D7C044204F96A1AA1ECEEF8BF71F93CF7ED27CC4D');
INSERT INTO "event" VALUES(40,'attach/a-3',4,'2d0af03e41b848c68b509604078e059b','lease.ended',1,1795986724984110132,1795986724984360031,0,'{"attach":"a-3","how":"closed","checked":""}',X'203F8A088697650D2BE4E6120D53EF78',X'8902F72A0935D5A5387F6A217BEB6C0AE34D02E96709C6E4ACEDD9A1955F1A82',X'582CD9803337EAFB869AC07685C23F05995C177203B4FBCCCE4EB814146F3D82');
INSERT INTO "event" VALUES(41,'attach/a-7',1,'54819f67aa484dd3b1d9a62463b8c3ef','attach.decided',1,1795986724984113233,1795986724984360031,0,'{"attach":"a-7","launch":"l-1","host":"node","engine":{"name":"test","version":"1","pid":1},"peer":{"uid":0,"pid":1},"ranks":{"rank":0,"world":2,"tp":1,"pp":1,"dp":1,"ep":1},"asked":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":null},"served":{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"residency":"r-1","kind":"raw","device":"cpu","outcome":"hit","reason":null,"detail":"","tier":"pinned","mode":"zero_copy","evidence":[{"tier":"pinned","fingerprint":"ffffffffffffffffffffffffffffffff","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","agrees":true}],"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"},"decided_by":"server","asked_dtype":null}',X'936A7B495F5D3323C5C8F0DD17E9C12D',X'D9873F8456DA9B56A5EF8AAA951363AD88AE4D2AEFB7927698CFFCCBC8BD8AE0',X'1ABFD5A69107D8119F0430A92B03FFB3F5DA41820DEA750361071D11F07871F9');
INSERT INTO "event" VALUES(42,'attach/a-7',2,'227e095034f944bba66ad3a324bab298','lease.granted',1,1795986724984115723,1795986724984360031,0,'{"attach":"a-7","residency":"r-1"}',X'B5D314D9B714DE39858D89446F440738',X'8A73BA300603021E08D29614BAAC62BB04E62B5737F7B63EF8345E4E3F36E2E3',X'5A6C5DAE4BAE984B2AE78437E885E5545C0F537F51D1B99370DD1384FCA9FC28');
INSERT INTO "event" VALUES(43,'ledger',6,'14b7511b0ac243bb97cd601df190f32e','payload.redacted',1,1795986725029001530,1795986725087771887,0,'{"target_seq":25,"why":"a path with a name","uid":0,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"},"body_schema":1}',X'653E3A3907CA954FAEBE1FA19094D778',X'13A477037AB33FAEDD4FBC4D6DB3FB6978FA1111275B747C1F9E7A83289DCDDB',X'A0F3B11AE470E5AEF44059AE0ADE890898A5F4D93D9E9EA87DFB5D4016C4F1C4');
INSERT INTO "event" VALUES(44,'ledger',7,'34c842ec248c4ede8ccfcc8ad42b6969','payload.redacted',1,1795986725029007276,1795986725087771887,0,'{"target_seq":26,"why":"a path with a name","uid":0,"body":{"attach":"a-5","residency":"r-2"},"body_schema":1}',X'9CE6E2D17D62E9BB9DFC6B3D15269C7B',X'C031432D7BEBD10526CE1E7CCC0D419F6BAA140AE92122673B4D7AFE00126462',X'C4C91480F875E07CB3D4CF1659F43D7B90AAA84665A58EA59F0758874DB2B117');
INSERT INTO "event" VALUES(45,'ledger',8,'d1e11cec31de46a698badce6cd0d3e37','payload.redacted',1,1795986725029009595,1795986725087771887,0,'{"target_seq":31,"why":"a path with a name","uid":0,"body":{"peer":{"pid":5,"uid":1000},"why":"[redacted]"},"body_schema":1}',X'677E980B5E1DDC2CFAAE88CC6271CD6B',X'B9AB0ED519273CC2CE062A66727A1E856A1F5E83DC122AC9E905EE2ADFA75749',X'F85554C6AE6177709FFC8C0E334F8CC3202455506B61302D1CB9126BBF8F5258');
INSERT INTO "event" VALUES(46,'attach/a-5',5,'cfbd087bd1d54c2ab51bffe1fb863c3d','verify.inconclusive',1,1795986725154545002,1795986725154783756,0,'{"subject":"hit","attach":"a-5","residency":"r-1","why":"the files changed"}',X'F5DC40BF0FCE08649B6DA57C27C33496',X'E5A111D2705B15C1CC0B8B67D0C8E80D97D8B87AF8AC9A2450F9CF9C6695737B',X'ABB92A5F77F509C46FE24F809C3D17BF42B72DC2B39CA4ECD23F42226D19F45C');
INSERT INTO "event" VALUES(47,'ledger',9,'a5947c66c99148818907d10c081504e4','segment.dropped',1,1795986725203858139,1795986725236981080,0,'{"spans":[{"first_seq":1,"last_seq":38,"from_ns":1795986724941072936,"to_ns":1795986724972336517,"at_ns":1795986725203745520,"uid":0,"keep_days":400,"root":"80d938480f4428993adde645a1432ced82732f39c7eddd200e1de064b89af508","events":{"attach.decided":6,"daemon.started":1,"fallback.completed":1,"fingerprint.recorded":2,"lease.ended":3,"lease.granted":5,"load.completed":2,"load.started":2,"map.completed":5,"peer.refused":1,"release.completed":1,"release.requested":1,"segment.closed":2,"segment.opened":1,"trust.granted":2,"trust.revoked":1,"verify.failed":1,"verify.passed":1},"decisions":{"fallback":1,"hit":5}}],"carried":[{"seq":1,"stream":"daemon/d-1","version":1,"event_id":"d26c648859474ab0874294c43a28e193","type":"daemon.started","schema":1,"occurred_ns":1795986724940040060,"recorded_ns":1795986724941072936,"late":false,"body":{"boot_id":"boot","instance":"d-1","origin":"00000000000000000000000000000000","pid":10,"runtime_dir":"/run/wcache","uid":0,"version":"1"}},{"seq":2,"stream":"fingerprint/1e1e30c3fea228fa4cce06526ce88304","version":1,"event_id":"29a625b055504776bb249a4bbc5b87e8","type":"fingerprint.recorded","schema":1,"occurred_ns":1795986724940045924,"recorded_ns":1795986724941072936,"late":false,"body":{"by":"server","evidence":{"age_s":null,"algorithm":"wcache/weights/1","attested_names":{},"coverage":{"chance_4k":0.0,"covered_bytes":1000,"files_opened":0,"read_bytes":0,"reads":0,"samples":0,"seconds":0.0,"stats":0,"total_bytes":1000},"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","file_digests":{},"grant":null,"location":{"commit":"c0ffee","directory":{"ctime_ns":6,"dev":1,"ino":2,"mtime_ns":5,"name":"","size_bytes":4096},"files":[{"ctime_ns":6,"dev":1,"ino":7,"mtime_ns":5,"name":"model.safetensors","size_bytes":1000}],"fs_kind":"ext4","index":null,"repo":"org/base","root":"/models/base"},"nonce":"","not_pinnable":"","pinnable":true,"reuses":null,"seed_id":null,"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tier":"content","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"},"fingerprint":"1e1e30c3fea228fa4cce06526ce88304","instance":"d-1","spelling":"/models/base","uid":0}},{"seq":4,"stream":"trust/g-1","version":1,"event_id":"664a5f026aeb4bd08ec2a5f127549b54","type":"trust.granted","schema":1,"occurred_ns":1795986724940050502,"recorded_ns":1795986724941072936,"late":false,"body":{"grant":{"expires_ns":null,"fingerprint":null,"grant":"g-1","granted_ns":1,"instance":null,"operator_uid":0,"prefix":null,"reason":"because","residency":null,"scope":"checkpoint","spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}},{"seq":7,"stream":"residency/r-1","version":1,"event_id":"b9ccfac39665485695ba2dfbe325b981","type":"load.started","schema":1,"occurred_ns":1795986724940058280,"recorded_ns":1795986724941072936,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"bytes":1000,"device":"cpu","instance":"d-1","kind":"raw","residency":"r-1","shards":1,"tensors":3}},{"seq":8,"stream":"residency/r-1","version":2,"event_id":"3632055bf0fc440fa58cfa25beeb6a67","type":"load.completed","schema":1,"occurred_ns":1795986724940061064,"recorded_ns":1795986724941072936,"late":false,"body":{"by":null,"bytes":1000,"config":{},"device":"cpu","dtypes":["BF16"],"fingerprints":["1e1e30c3fea228fa4cce06526ce88304"],"kind":"raw","lineage":null,"misaligned":0,"pinned":false,"processed_digest":null,"residency":"r-1","seconds":{"read":0.5},"served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"shards":1,"source":null,"strays":[],"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tensors":3,"unproven_why":"","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},{"seq":13,"stream":"attach/a-2","version":1,"event_id":"253136bd29b2453e83057ad5a0b911f9","type":"attach.decided","schema":1,"occurred_ns":1795986724940083635,"recorded_ns":1795986724941072936,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-2","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":14,"stream":"attach/a-2","version":2,"event_id":"3fb8d35cb842470aafe67a9fe3e0a18b","type":"lease.granted","schema":1,"occurred_ns":1795986724940085786,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-2","residency":"r-1"}},{"seq":15,"stream":"attach/a-2","version":3,"event_id":"2234c43aab394d0fae73fbce7449a01a","type":"map.completed","schema":1,"occurred_ns":1795986724940087745,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-2","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":16,"stream":"attach/a-2","version":4,"event_id":"68c73e5484b644a2a47b0df6a09e4aa3","type":"verify.failed","schema":1,"occurred_ns":1795986724940089894,"recorded_ns":1795986724941072936,"late":false,"body":{"asked_key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","attach":"a-2","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","residency":"r-1","seconds":0.1,"spellings":["/models/base"],"subject":"hit"}},{"seq":17,"stream":"attach/a-2","version":5,"event_id":"4d066432fe2845259987789780c714cc","type":"lease.ended","schema":1,"occurred_ns":1795986724940093184,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-2","checked":"","how":"closed"}},{"seq":18,"stream":"attach/a-3","version":1,"event_id":"e1b812cc9f6c41e183fa4b8ef561e92b","type":"attach.decided","schema":1,"occurred_ns":1795986724940095667,"recorded_ns":1795986724941072936,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-3","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":19,"stream":"attach/a-3","version":2,"event_id":"b1ee61f5074b42ab8732b7a050ee8815","type":"lease.granted","schema":1,"occurred_ns":1795986724940097516,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-3","residency":"r-1"}},{"seq":20,"stream":"attach/a-3","version":3,"event_id":"babe1a37a23a4ddfb98e0914f9e55526","type":"map.completed","schema":1,"occurred_ns":1795986724940099507,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-3","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":23,"stream":"residency/r-2","version":1,"event_id":"771f8b19ffac41e18d39ab32f2b3d9be","type":"load.started","schema":1,"occurred_ns":1795986724940106052,"recorded_ns":1795986724941072936,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"bytes":1000,"device":"cpu","instance":"d-1","kind":"raw","residency":"r-2","shards":1,"tensors":3}},{"seq":24,"stream":"residency/r-2","version":2,"event_id":"00e0e12082f743fa898d4d123e76b73e","type":"load.completed","schema":1,"occurred_ns":1795986724940108451,"recorded_ns":1795986724941072936,"late":false,"body":{"by":null,"bytes":1000,"config":{},"device":"cpu","dtypes":["BF16"],"fingerprints":[],"kind":"raw","lineage":null,"misaligned":0,"pinned":false,"processed_digest":null,"residency":"r-2","seconds":{"read":0.5},"served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"shards":1,"source":null,"strays":[],"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","tensors":3,"unproven_why":"","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},{"seq":25,"stream":"attach/a-5","version":1,"event_id":"e897736cbf144ee38af6ee710cb12276","type":"attach.decided","schema":1,"occurred_ns":1795986724940110846,"recorded_ns":1795986724941072936,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-5","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"[redacted]","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-2","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"[redacted]","root":"[redacted]","spelling":"[redacted]","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":26,"stream":"attach/a-5","version":2,"event_id":"ccc60d64fb0946ccb7b9fbba087d84a1","type":"lease.granted","schema":1,"occurred_ns":1795986724940113332,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-5","residency":"r-2"}},{"seq":27,"stream":"attach/a-5","version":3,"event_id":"42a053096333498fb2935f48e3723b93","type":"map.completed","schema":1,"occurred_ns":1795986724940115635,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-5","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}},{"seq":28,"stream":"attach/a-5","version":4,"event_id":"8036732807ef4b14b4ff5d9f5ee1ccc9","type":"lease.ended","schema":1,"occurred_ns":1795986724940117964,"recorded_ns":1795986724941072936,"late":false,"body":{"attach":"a-5","checked":"","how":"closed"}},{"seq":29,"stream":"residency/r-2","version":3,"event_id":"7bcbd0cbc4ba4bea946e1dac1876dc38","type":"release.requested","schema":1,"occurred_ns":1795986724940120647,"recorded_ns":1795986724941072936,"late":false,"body":{"force":false,"leases":[],"residency":"r-2","uid":0,"when_free":false,"why":"asked"}},{"seq":30,"stream":"residency/r-2","version":4,"event_id":"ede41e3d20cb46fd89d2daea1f68e05e","type":"release.completed","schema":1,"occurred_ns":1795986724940122904,"recorded_ns":1795986724941072936,"late":false,"body":{"bytes":1000,"checked":"","residency":"r-2"}},{"seq":35,"stream":"attach/a-6","version":1,"event_id":"bec9b1b9690b4b10b36e772e9b0744df","type":"attach.decided","schema":1,"occurred_ns":1795986724964012268,"recorded_ns":1795986724964318122,"late":false,"body":{"asked":{"commit":"c0ffee","digest":null,"key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"asked_dtype":null,"attach":"a-6","decided_by":"server","detail":"","device":"cpu","engine":{"name":"test","pid":1,"version":"1"},"evidence":[{"agrees":true,"digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","fingerprint":"ffffffffffffffffffffffffffffffff","tier":"pinned"}],"host":"node","kind":"raw","launch":"l-1","mode":"zero_copy","outcome":"hit","peer":{"pid":1,"uid":0},"policy":"ecbf1c02a252e835d08fab320a8a85fd","policy_body":{"accept":"pinned","attested":"ignore","max_read_bytes":null,"network_fs":"refuse","on_ledger_failure":"no_hit","on_miss":"fallback","trusted":"ignore","wait_s":300.0},"ranks":{"dp":1,"ep":1,"pp":1,"rank":0,"tp":1,"world":2},"reason":null,"residency":"r-1","served":{"commit":"c0ffee","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","repo":"org/base","root":"/models/base","spelling":"/models/base","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"},"tier":"pinned"}},{"seq":36,"stream":"attach/a-6","version":2,"event_id":"0be3ae500d974a258bb04f5cf93f24dc","type":"lease.granted","schema":1,"occurred_ns":1795986724964015407,"recorded_ns":1795986724964318122,"late":false,"body":{"attach":"a-6","residency":"r-1"}},{"seq":37,"stream":"attach/a-6","version":3,"event_id":"c683d1d2d9874d4e9ed1d2be1cba1c39","type":"map.completed","schema":1,"occurred_ns":1795986724964018055,"recorded_ns":1795986724964318122,"late":false,"body":{"attach":"a-6","bytes":1000,"copied_bytes":0,"copied_tensors":0,"mode":"zero_copy","ms":0.5,"tensors":3}}],"versions":{"ledger":4}}',X'31CD528E54D9925C1CF95CE4FCEA74FA',X'54C292E5E69450778004FE070C268863F91D6D32604828F1426683659AF7B06C',X'3D19525BB7E1448DF60F80431A61E2A28214F93FC7AB00BA19E52D180D8FA233');
INSERT INTO "event" VALUES(48,'attach/a-6',4,'81a750b2533e4d408309acf851fc4f42','lease.ended',1,1795986725319347255,1795986725319747137,0,'{"attach":"a-6","how":"closed","checked":""}',X'F21448D436179F588223A674CD932B48',X'668FBBF9FEACF7D52925C23E98E452DDDF84BC57F0EC9634CEFD40D7BC9B596D',X'7B700B4037BF2A89135486472EE8A78E58BE2F78B9F3F92074E5B5526B0FA132');
INSERT INTO "event" VALUES(49,'attach/a-4',1,'47b8c64793da4fe6b5ef53c96b50ea85','lease.ended',1,1795986725319350403,1795986725319747137,1,'{"attach":"a-4","how":"closed","checked":""}',X'B3A25DE2293C0999495161CE3465B48B',X'A283F4146E2A000A8ABC154564C43420DA8639A876E95D290F2190665F70AFDC',X'694297A24BD164652CE5F1677148452A839A4B90ACAFE00A06437EB165242462');
INSERT INTO "event" VALUES(50,'attach/a-1',1,'c9706b1bbcb1484fb2a511e8158bad0a','verify.passed',1,1795986725319352834,1795986725319747137,1,'{"subject":"hit","attach":"a-1","residency":"r-1","expected":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","found":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seconds":0.1,"by":"digests"}',X'7AAE94F094C40C0677915F7DDB239A97',X'6F750E8361F96CBE3C21181093416ED1CEEDEB1AA7674675D136D6604C01BFF6',X'D1E55C8D38129CE03053FEAF579E737F997DB63F9C8363C55A9637F73EB32261');
CREATE TABLE fingerprint (
  fingerprint TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  tier TEXT NOT NULL,
  digest TEXT NOT NULL,
  weights_digest TEXT,
  root TEXT,
  key TEXT,
  spelling TEXT NOT NULL,
  instance TEXT,
  recorded_ns INTEGER NOT NULL,
  pinnable INTEGER NOT NULL CHECK (pinnable IN (0, 1)),
  body TEXT NOT NULL
) STRICT;
INSERT INTO "fingerprint" VALUES('1e1e30c3fea228fa4cce06526ce88304',2,'content','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','/models/base','fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b','/models/base','d-1',1795986724941072936,1,'{"tier":"content","algorithm":"wcache/weights/1","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","coverage":{"covered_bytes":1000,"total_bytes":1000,"samples":0,"chance_4k":0.0,"files_opened":0,"reads":0,"stats":0,"read_bytes":0,"seconds":0.0},"location":{"root":"/models/base","files":[{"name":"model.safetensors","dev":1,"ino":7,"size_bytes":1000,"mtime_ns":5,"ctime_ns":6}],"index":null,"directory":{"name":"","dev":1,"ino":2,"size_bytes":4096,"mtime_ns":5,"ctime_ns":6},"fs_kind":"ext4","repo":"org/base","commit":"c0ffee"},"table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","seed_id":null,"file_digests":{},"pinnable":true,"not_pinnable":"","reuses":null,"grant":null,"age_s":null,"attested_names":{},"nonce":""}');
CREATE TABLE instance (
  instance TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  state TEXT NOT NULL,
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER,
  pid INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  version TEXT NOT NULL,
  boot_id TEXT NOT NULL,
  runtime_dir TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "instance" VALUES('d-1',1,'running',1795986724940040060,NULL,10,0,'1','boot','/run/wcache');
CREATE TABLE meta (
  key TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "meta" VALUES('created_ns','1795986724929734609');
INSERT INTO "meta" VALUES('origin','1a01041dbf623c369f0761d3b88e5133');
CREATE TABLE policy (
  policy TEXT NOT NULL PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;
INSERT INTO "policy" VALUES('ecbf1c02a252e835d08fab320a8a85fd','{"accept":"pinned","attested":"ignore","trusted":"ignore","on_miss":"fallback","on_ledger_failure":"no_hit","max_read_bytes":null,"wait_s":300.0,"network_fs":"refuse"}');
CREATE TABLE residency (
  residency TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  checkpoint TEXT NOT NULL,
  root TEXT,
  repo TEXT,
  commit_id TEXT,
  kind TEXT,
  device TEXT,
  bytes INTEGER,
  tensors INTEGER,
  weights_digest TEXT,
  table_digest TEXT,
  state TEXT NOT NULL,
  loaded_ns INTEGER,
  ended_ns INTEGER,
  instance TEXT,
  known TEXT NOT NULL,
  spellings TEXT NOT NULL,
  dtypes TEXT NOT NULL,
  served TEXT NOT NULL
) STRICT;
INSERT INTO "residency" VALUES('r-1',8,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','resident',1795986724940061064,NULL,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
INSERT INTO "residency" VALUES('r-2',24,'/models/base','/models/base','org/base','c0ffee','raw','cpu',1000,3,'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa','cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc','released',1795986724940108451,1795986724940122904,'d-1','{}','["/models/base","org/base"]','["BF16"]','{"spelling":"/models/base","root":"/models/base","repo":"org/base","commit":"c0ffee","key":"fab09ef3d88b29610d57f4ac7e2f7a3a8fac557160ce5d45a685bf8fb442037b","table_digest":"cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc","digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}');
CREATE TABLE sighting (
  instance TEXT NOT NULL,
  spelling TEXT NOT NULL,
  seq INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  PRIMARY KEY (instance, spelling)
) STRICT, WITHOUT ROWID;
INSERT INTO "sighting" VALUES('d-1','/models/base',2,'1e1e30c3fea228fa4cce06526ce88304');
INSERT INTO "sighting" VALUES('d-1','org/base',8,'1e1e30c3fea228fa4cce06526ce88304');
CREATE TABLE stream (
  stream TEXT NOT NULL PRIMARY KEY,
  version INTEGER NOT NULL,
  state TEXT NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO "stream" VALUES('attach/a-1',1,'{"state":"asked","outcome":null,"arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-2',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"refuted"}');
INSERT INTO "stream" VALUES('attach/a-3',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-4',1,'{"state":"asked","outcome":null,"arrived":false,"proof":null}');
INSERT INTO "stream" VALUES('attach/a-5',5,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unprovable"}');
INSERT INTO "stream" VALUES('attach/a-6',4,'{"state":"ended","outcome":"hit","arrived":true,"proof":"unproven"}');
INSERT INTO "stream" VALUES('attach/a-7',2,'{"state":"granted","outcome":"hit","arrived":false,"proof":"unproven"}');
INSERT INTO "stream" VALUES('daemon/d-1',1,'');
INSERT INTO "stream" VALUES('fingerprint/1e1e30c3fea228fa4cce06526ce88304',1,'');
INSERT INTO "stream" VALUES('ledger',9,'');
INSERT INTO "stream" VALUES('residency/r-1',2,'resident');
INSERT INTO "stream" VALUES('residency/r-2',4,'released');
INSERT INTO "stream" VALUES('trust/g-1',1,'active');
CREATE TABLE trust (
  grant TEXT NOT NULL PRIMARY KEY,
  seq INTEGER NOT NULL,
  scope TEXT NOT NULL,
  state TEXT NOT NULL,
  body TEXT NOT NULL,
  revoked_seq INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO "trust" VALUES('g-1',4,'checkpoint','active','{"grant":"g-1","scope":"checkpoint","reason":"because","operator_uid":0,"granted_ns":1,"expires_ns":null,"spellings":["/models/base"],"weights_digest":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","residency":null,"instance":null,"prefix":null,"fingerprint":null}',NULL);
CREATE TRIGGER event_no_update BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_delete BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_no_replace BEFORE INSERT ON event
WHEN NEW.seq <= coalesce((SELECT max(seq) FROM event), 0)
  OR EXISTS (SELECT 1 FROM event WHERE event_id = NEW.event_id)
  OR EXISTS (SELECT 1 FROM event WHERE stream = NEW.stream AND version = NEW.version)
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE UNIQUE INDEX attach_seq ON attach (seq);
CREATE INDEX attach_launch ON attach (launch);
CREATE INDEX attach_decided_ns ON attach (decided_ns);
CREATE INDEX attach_residency ON attach (residency);
CREATE INDEX residency_state ON residency (state);
CREATE INDEX fingerprint_root ON fingerprint (root, tier, seq);
CREATE INDEX fingerprint_key ON fingerprint (key, tier, seq);
CREATE INDEX fingerprint_spelling ON fingerprint (spelling, tier, seq);
COMMIT;
